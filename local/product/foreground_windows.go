package product

import "github.com/gatewright/gatewright/local/processes"

// takeForeground does nothing: Ctrl-C is for all programs of a console here, and
// a launcher ends with its child.
func takeForeground([]processes.Process) (release func()) { return func() {} }
