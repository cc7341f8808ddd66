"""What `recorder.log` is made of: how facts, bodies and positions lie in SQLite, and the chain over them."""
