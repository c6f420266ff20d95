"""A serving path in miniature on this machine, with a fault planted at one hop: does the verdict name it?"""
