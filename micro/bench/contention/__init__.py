"""What loads, stores and copies cost beside mma, and each other; part of the room ``micro.bench``."""
