package processes

import (
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// launcherNames includes the shell that make starts: on Windows, the shell continues to run after its command exec.
func launcherNames() []string { return []string{"go", "make", "gmake", "mingw32-make", "sh"} }

// find searches a snapshot of all processes.
func find(pid int) (p Process, ok bool) {
	start, ok := startTime(pid)
	if !ok {
		return Process{}, false
	}
	all, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		return Process{}, false
	}
	defer func() { _ = windows.CloseHandle(all) }()
	var entry windows.ProcessEntry32
	entry.Size = uint32(unsafe.Sizeof(entry))
	for err = windows.Process32First(all, &entry); err == nil; err = windows.Process32Next(all, &entry) {
		if int(entry.ProcessID) == pid {
			return Process{
				PID: pid, Parent: int(entry.ParentProcessID), Name: windows.UTF16ToString(entry.ExeFile[:]), start: start,
			}, true
		}
	}
	return Process{}, false
}

// startTime returns the start time in nanoseconds since 1970. startTime also opens a process that has ended, if any
// process still has a handle of it, so it checks for the end. A process that cannot be opened because of its
// permissions belongs to another user and is running. For such a process, startTime returns "" and true.
func startTime(pid int) (start string, ok bool) {
	//nolint:gosec // G115: an id
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION|windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return "", err == windows.ERROR_ACCESS_DENIED //nolint:errorlint // it is an Errno
	}
	defer func() { _ = windows.CloseHandle(h) }()
	if state, err := windows.WaitForSingleObject(h, 0); err != nil || state == windows.WAIT_OBJECT_0 {
		return "", false
	}
	var created, exited, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(h, &created, &exited, &kernel, &user); err != nil {
		return "", false
	}
	return strconv.FormatInt(created.Nanoseconds(), 10), true
}

// Group returns the attributes for a child in a process group of its own: a Ctrl-C in the console does not reach it.
func Group() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// Kill kills a child without a warning. The processes that it has started continue: Windows cannot end a group.
func Kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}

// Interrupt sends Ctrl-Break to a child that was started with Group and to its group. Unlike Ctrl-C, Ctrl-Break can be
// sent to a single group. Go programs receive it as os.Interrupt.
func Interrupt(pid int) error {
	return windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(pid)) //nolint:gosec // G115: an id
}
