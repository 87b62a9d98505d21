package listen

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestAddressThatCannotBeListenedOnSaysWhatToDo, by what the system says of it.
func TestAddressThatCannotBeListenedOnSaysWhatToDo(t *testing.T) {
	t.Parallel()
	of := func(cause error) error { return &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", cause)} }
	for want, err := range map[string]error{
		"another program":      of(syscall.EADDRINUSE),
		"CAP_NET_BIND_SERVICE": of(syscall.EACCES),
		"cannot be listened on (bind: cannot assign requested address)": of(syscall.EADDRNOTAVAIL),
	} {
		told := refused(err, ":80", "the gateway", "GATEWRIGHT_GATEWAY_ADDR").Error()
		if !strings.Contains(told, want) || !strings.Contains(told, ":80 for the gateway") || !strings.Contains(told, "GATEWRIGHT_GATEWAY_ADDR") {
			t.Errorf("%v is told as %q", err, told)
		}
	}
}
