package arm64_test

import (
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/system/instance"
	"github.com/gatewright/gatewright/shared/testing/freeport"
	"github.com/gatewright/gatewright/shared/testing/readme"
)

var (
	product  = flag.String("product", "", "the product's binary for arm64; without it the test is skipped")
	emulator = flag.String("emulator", "qemu-aarch64-static", "the processor emulator that runs the product")
)

const repository = "../../.."

// TestReadmeOnARM64 runs the README's commands with a product for another processor. The product compiles projects in a
// separate process of the same binary, which needs the emulator too.
func TestReadmeOnARM64(t *testing.T) {
	if *product == "" {
		t.Skip("make test-arm runs this test")
	}
	qemu, err := exec.LookPath(*emulator)
	if err != nil {
		t.Fatalf("install qemu-user-static: %v", err)
	}
	binary := emulatedBinary(t, *product)
	p, err := instance.Start(t.Context(), t.TempDir(), repository, qemu, binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Stop()
		if t.Failed() {
			t.Logf("the product printed:\n%s", p.Output())
		}
	})
	// The emulator starts the product, but the kernel starts the child processes of the product. They run the product's
	// own binary, and the product has already looked up its path. From now on, the file at this path is a script that
	// starts the binary in the emulator.
	script := fmt.Sprintf("#!/bin/sh\nexec %s %s.arm64 \"$@\"\n", qemu, binary)
	if err := errors.Join(os.Rename(binary, binary+".arm64"), os.WriteFile(binary, []byte(script), 0o700)); err != nil {
		t.Fatal(err)
	}

	replacer := strings.NewReplacer("http://127.0.0.1:9000", p.API, ".gatewright/", p.Data()+"/", "examples/hello",
		sample(t))
	steps, err := readme.ReadSteps(filepath.Join(repository, "README.md"), "Five minutes", replacer)
	if err != nil {
		t.Fatal(err)
	}
	if steps[0].Commands != "make run" {
		t.Fatalf("the first step of the README is %q, want \"make run\"", steps[0].Commands)
	}
	env := append(os.Environ(), "GATEWRIGHT_DATA_DIR="+p.Data())
	if _, err := readme.Run(t.Context(), repository, env, steps[1:]); err != nil {
		t.Fatalf("run the commands of the README: %v, want no error", err)
	}
}

// emulatedBinary copies a binary, and requires that it is for arm64. On a machine that can run the binary without an emulator, the test would
// prove nothing.
func emulatedBinary(t *testing.T, path string) string {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if file.Machine != elf.EM_AARCH64 {
		t.Fatalf("%s is built for %s, want %s", path, file.Machine, elf.EM_AARCH64)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "product")
	if err := os.WriteFile(to, raw, 0o700); err != nil {
		t.Fatal(err)
	}
	return to
}

// sample returns a copy of examples/hello whose upstream listens on a free port.
func sample(t *testing.T) string {
	t.Helper()
	port := strconv.Itoa(int(freeport.Address(t).Port()))
	folder := filepath.Join(t.TempDir(), "hello")
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(repository, "examples", "hello"))); err != nil {
		t.Fatal(err)
	}
	changed := 0
	err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(raw), "9002") {
			return err
		}
		changed++
		return os.WriteFile(path, []byte(strings.ReplaceAll(string(raw), "9002", port)), 0o600)
	})
	if err != nil || changed < 2 {
		t.Fatalf("%d files of the sample contain the port 9002, error %v, want at least 2 and no error", changed, err)
	}
	return folder
}
