package program_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/program"
)

// asVariable makes the tests' binary a program, which fails, waits for a signal, or ends.
const asVariable = "GATEWRIGHT_TEST_PROGRAM"

func TestMain(m *testing.M) {
	as := os.Getenv(asVariable)
	if as == "" {
		os.Exit(m.Run())
	}
	program.Main(context.Background(), "try", func(ctx context.Context) error {
		switch as {
		case "fails":
			return errors.New("it is beyond its bar")
		case "waits":
			_, _ = os.Stdout.WriteString("waits\n")
			<-ctx.Done()
			return errors.New("it was told to end")
		}
		return nil
	})
}

func TestErrorIsToldAndIsTheStatus(t *testing.T) {
	for as, want := range map[string]struct {
		status int
		says   string
	}{"fails": {1, "try: it is beyond its bar\n"}, "ends": {0, ""}, "waits": {1, "try: it was told to end\n"}} {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), asVariable+"="+as)
		var says strings.Builder
		cmd.Stderr = &says
		out, err := cmd.StdoutPipe()
		if err := errors.Join(err, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		if as == "waits" {
			if _, err := out.Read(make([]byte, 16)); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != want.status || says.String() != want.says {
			t.Errorf("%s: it ends with %d and says %q, want %d and %q", as, got, says.String(), want.status, want.says)
		}
	}
}

func TestFolderIsGoneAfterwards(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	fails := errors.New("it fails")
	var made string
	err := program.InFolder("try", func(dir string) error {
		made = dir
		return errors.Join(os.WriteFile(filepath.Join(dir, "data"), nil, 0o600), fails)
	})
	if _, gone := os.Stat(made); !errors.Is(err, fails) || !errors.Is(gone, os.ErrNotExist) || filepath.Dir(made) != os.Getenv("TMPDIR") {
		t.Errorf("it ends with %v, and %s: %v", err, made, gone)
	}
}
