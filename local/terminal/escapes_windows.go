package terminal

import (
	"os"

	"golang.org/x/sys/windows"
)

// understandsEscapes has a console interpret escape sequences, which it does since
// Windows 10 for who asks for it. NUL is a character device and no console.
func understandsEscapes(f *os.File) bool {
	console := windows.Handle(f.Fd())
	var mode uint32
	if windows.GetConsoleMode(console, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
