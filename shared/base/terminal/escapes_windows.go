package terminal

import (
	"os"

	"golang.org/x/sys/windows"
)

// enableEscapes makes a console interpret escape sequences, which consoles support since Windows 10. It returns false
// if the console does not support them, or if f is not a console. NUL, for example, is a character device but not a
// console.
func enableEscapes(f *os.File) bool {
	console := windows.Handle(f.Fd())
	var mode uint32
	if windows.GetConsoleMode(console, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
