"""What `recorder.capture` is made of: looking at a work tree, building git trees, and the shadow store."""
