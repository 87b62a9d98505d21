package disk

import (
	"errors"
	"syscall"
)

// advice maps an error to what the operator should do about it. With these errors the system refuses access to a file,
// whose content can be intact.
var advice = map[syscall.Errno]string{
	syscall.EMFILE: "the process has reached its limit of open files and connections: raise its limit (ulimit -n, " +
		"LimitNOFILE in its systemd unit)",
	syscall.ENFILE: "the system has reached its limit of open files: end other programs, or raise its limit (fs.file-max)",
	syscall.ENOMEM: "the system has no memory left: end other programs, or give it more",
	syscall.EACCES: "give the user who runs this access to its files",
	syscall.EPERM:  "give the user who runs this access to its files",
	syscall.ENOSPC: "see that its disk has room and is writable",
	syscall.EDQUOT: "see that its disk has room and is writable",
	syscall.EROFS:  "see that its disk has room and is writable",
	syscall.EIO: "see that its disk works: the system's log has its errors. If they go on, restore the last backup " +
		"to another disk",
}

// AccessAdvice returns what to do about an error that means that the system refuses access to a file. It returns ""
// for any other error. Such an error says nothing about the file's content. If a program called the file damaged
// because a limit is too low, its operator would restore a backup, and lose all data that is newer than the backup.
func AccessAdvice(err error) string {
	for errno, text := range advice {
		if errors.Is(err, errno) {
			return text
		}
	}
	for errno, equivalent := range equivalentErrnos {
		if errors.Is(err, errno) {
			return advice[equivalent]
		}
	}
	return ""
}
