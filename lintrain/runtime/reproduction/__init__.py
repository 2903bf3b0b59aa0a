"""What a failing stage needs to fail again by itself: the call that raised, its arguments, and the objects in it."""
