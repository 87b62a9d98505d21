package disk

import (
	"errors"
	"syscall"
)

// advice says what to do when the system refuses access to a file, which may be whole.
var advice = map[syscall.Errno]string{
	syscall.EMFILE: "the process has reached its limit of open files and connections: raise its limit (ulimit -n, LimitNOFILE in its systemd unit)",
	syscall.ENFILE: "the system has reached its limit of open files: end other programs, or raise its limit (fs.file-max)",
	syscall.ENOMEM: "the system has no memory left: end other programs, or give it more",
	syscall.EACCES: "give the user who runs this access to its files",
	syscall.EPERM:  "give the user who runs this access to its files",
	syscall.ENOSPC: "see that its disk has room and is writable",
	syscall.EDQUOT: "see that its disk has room and is writable",
	syscall.EROFS:  "see that its disk has room and is writable",
	syscall.EIO:    "see that its disk works: the system's log has its errors. If they go on, restore the last backup to another disk",
}

// Refusal returns what to do about an error with which the system refuses access to a file, or "" for any other error. Such an
// error says nothing about the file's content. If a program called the file damaged because a limit is too low, its operator would
// restore a backup, and lose everything that was written since.
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
