package main

// execProgram runs the program at path as a child, because Windows cannot replace a process.
func execProgram(path string, args []string) error { return runChild(path, args) }
