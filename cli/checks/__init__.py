"""What can be wrong with a recording and its surroundings: one module an area, each check a function that
returns problems as values. Nothing here prints, asks, or changes anything until a problem's `mend` is called.
"""
