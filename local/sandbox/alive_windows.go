package sandbox

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// inherit passes a file to the child, and returns the number of the file's handle
// as text. Handles of os.Pipe can be inherited, and only this child inherits them.
func inherit(cmd *exec.Cmd, f *os.File) (name string) {
	cmd.SysProcAttr.AdditionalInheritedHandles = []syscall.Handle{syscall.Handle(f.Fd())}
	return strconv.FormatUint(uint64(f.Fd()), 10)
}
