package devmain_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/devmain"
)

// roleVar is the variable that turns the binary of the tests into a program. Its value selects whether the program
// fails, waits for a signal, or ends.
const roleVar = "GATEWRIGHT_TEST_PROGRAM"

func TestMain(m *testing.M) {
	role := os.Getenv(roleVar)
	if role == "" {
		os.Exit(m.Run())
	}
	devmain.Main(context.Background(), "try", func(ctx context.Context) error {
		switch role {
		case "fails":
			return errors.New("a figure is over its limit")
		case "waits":
			_, _ = os.Stdout.WriteString("waits\n")
			<-ctx.Done()
			return errors.New("it was interrupted")
		}
		return nil
	})
}

func TestErrorSetsExitCodeAndIsPrinted(t *testing.T) {
	for role, want := range map[string]struct {
		status int
		stderr string
	}{"fails": {1, "try: a figure is over its limit\n"}, "ends": {0, ""}, "waits": {1, "try: it was interrupted\n"}} {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), roleVar+"="+role)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		if err := errors.Join(err, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		if role == "waits" {
			if _, err := out.Read(make([]byte, 16)); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != want.status || stderr.String() != want.stderr {
			t.Errorf("%s: exit code = %d, stderr = %q, want %d and %q", role, got, stderr.String(), want.status, want.stderr)
		}
	}
}

func TestInFolderDeletesTheFolder(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	wantErr := errors.New("it fails")
	var folder string
	err := devmain.InFolder("try", func(dir string) error {
		folder = dir
		return errors.Join(os.WriteFile(filepath.Join(dir, "data"), nil, 0o600), wantErr)
	})
	if !errors.Is(err, wantErr) {
		t.Errorf("InFolder() error = %v, want %v", err, wantErr)
	}
	if got, want := filepath.Dir(folder), os.Getenv("TMPDIR"); got != want {
		t.Errorf("InFolder() created its folder in %s, want %s", got, want)
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Stat(%s) after InFolder(): error = %v, want %v", folder, err, os.ErrNotExist)
	}
}
