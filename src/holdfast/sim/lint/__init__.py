"""What reading the source finds: modules that leave the simulator, sets whose order shows, classes that
members would execute differently.
"""
