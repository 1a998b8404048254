"""The commands of ``dsgt``, one file each."""
