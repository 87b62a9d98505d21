package disk

import (
	"errors"
	"syscall"
)

// advice says what to do about errors by which a system refuses to use a file that may be whole.
var advice = map[syscall.Errno]string{
	syscall.EMFILE: "the process has as many files and connections open as it may: raise its limit (ulimit -n, LimitNOFILE in its systemd unit)",
	syscall.ENFILE: "the system has as many files open as it may: end other programs, or raise its limit (fs.file-max)",
	syscall.ENOMEM: "the system has no memory left: end other programs, or give it more",
	syscall.EACCES: "see that the user who runs this may use its files",
	syscall.EPERM:  "see that the user who runs this may use its files",
	syscall.ENOSPC: "see that its disk has room and is writable",
	syscall.EDQUOT: "see that its disk has room and is writable",
	syscall.EROFS:  "see that its disk has room and is writable",
	syscall.EIO:    "see that its disk works: the system's log has its errors. If they go on, restore the last backup to another disk",
}

// Refusal returns what to do about an error by which the system refuses to use a file, "" for every other error. Such an error
// says nothing of what the file holds: a program that calls the file damaged has its operator restore a
// backup, and lose what was written since, for a limit that is too low.
func Refusal(err error) string {
	for number, text := range advice {
		if errors.Is(err, number) {
			return text
		}
	}
	for number, as := range refusals {
		if errors.Is(err, number) {
			return advice[as]
		}
	}
	return ""
}
