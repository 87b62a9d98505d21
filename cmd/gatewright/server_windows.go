package main

// become runs the program at path as a child: no process becomes another program here.
func become(path string, words []string) error { return runChild(path, words) }
