package disk

import "syscall"

// equivalentErrnos maps error numbers of Windows to the numbers that package syscall invents for Windows.
var equivalentErrnos = map[syscall.Errno]syscall.Errno{
	4:    syscall.EMFILE, // ERROR_TOO_MANY_OPEN_FILES
	5:    syscall.EACCES, // ERROR_ACCESS_DENIED
	8:    syscall.ENOMEM, // ERROR_NOT_ENOUGH_MEMORY
	14:   syscall.ENOMEM, // ERROR_OUTOFMEMORY
	19:   syscall.EROFS,  // ERROR_WRITE_PROTECT
	23:   syscall.EIO,    // ERROR_CRC, of the disk itself
	112:  syscall.ENOSPC, // ERROR_DISK_FULL
	1117: syscall.EIO,    // ERROR_IO_DEVICE
	1450: syscall.ENOMEM, // ERROR_NO_SYSTEM_RESOURCES
}
