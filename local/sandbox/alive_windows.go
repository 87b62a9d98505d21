package sandbox

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// inherit has the child inherit a file, which it finds under the name: that of
// its handle. os.Pipe marks its own as inheritable, and no other child gets them.
func inherit(cmd *exec.Cmd, f *os.File) (name string) {
	cmd.SysProcAttr.AdditionalInheritedHandles = []syscall.Handle{syscall.Handle(f.Fd())}
	return strconv.FormatUint(uint64(f.Fd()), 10)
}
