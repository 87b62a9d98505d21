package builds

import (
	"context"
	"io"
	"strings"
	"testing"
)

// verboseSandbox is a sandbox whose child prints twice the maximum.
type verboseSandbox struct{ printed int64 }

// Run implements installation.Sandbox. It copies the output as os/exec does.
func (s *verboseSandbox) Run(_ context.Context, _ io.Reader, out io.Writer) (err error) {
	s.printed, err = io.Copy(out, io.LimitReader(zeros{}, 2*maxResultBytes))
	return err
}

// zeros is an endless stream of zero bytes.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestSandboxOutputIsLimited checks that at most maxResultBytes of a sandbox's output are read, and that the build ends
// with an error that says so.
func TestSandboxOutputIsLimited(t *testing.T) {
	var s verboseSandbox
	b := &Builder{options: Options{Sandbox: &s}}
	_, _, err := b.run(t.Context(), strings.NewReader("archive"), buildRequest{})
	if err == nil || !strings.Contains(err.Error(), "too large") || s.printed > maxResultBytes {
		t.Errorf("run() = %v after %d bytes of output, want an error after at most %d", err, s.printed, maxResultBytes)
	}
}
