"""The ladder of read paths alone and under the mma; part of the room ``micro.bench``."""
