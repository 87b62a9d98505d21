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

	"github.com/gatewright/gatewright/internal/free"
	"github.com/gatewright/gatewright/internal/readme"
	"github.com/gatewright/gatewright/local/instance"
)

var (
	product  = flag.String("product", "", "the product's binary for arm64; without it the test is skipped")
	emulator = flag.String("emulator", "qemu-aarch64-static", "what runs it")
)

const repository = "../.."

// TestFiveMinutesOnARM64 types what the README says, beside a product for another processor. What it compiles,
// it compiles in a process of its own, which is for that processor too.
func TestFiveMinutesOnARM64(t *testing.T) {
	if *product == "" {
		t.Skip("make test-arm runs it")
	}
	qemu, err := exec.LookPath(*emulator)
	if err != nil {
		t.Fatalf("install qemu-user-static: %v", err)
	}
	binary := emulated(t, *product)
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
	// The emulator starts the product, and the kernel whatever that starts: its own binary, by a path that it has
	// looked up by now. A script stands there from now on, which has the emulator start it.
	script := fmt.Sprintf("#!/bin/sh\nexec %s %s.arm64 \"$@\"\n", qemu, binary)
	if err := errors.Join(os.Rename(binary, binary+".arm64"), os.WriteFile(binary, []byte(script), 0o700)); err != nil {
		t.Fatal(err)
	}

	here := strings.NewReplacer("http://127.0.0.1:9000", p.API, ".gatewright/", p.Data()+"/", "examples/hello", sample(t))
	steps, err := readme.Page(filepath.Join(repository, "README.md"), "Five minutes", here)
	if err != nil {
		t.Fatal(err)
	}
	if steps[0].Commands != "make run" {
		t.Fatalf("the first step is no longer make run, but %s", steps[0].Commands)
	}
	env := append(os.Environ(), "GATEWRIGHT_DATA_DIR="+p.Data())
	if _, err := readme.Run(t.Context(), repository, env, steps[1:]); err != nil {
		t.Fatal(err)
	}
}

// emulated copies a binary, which has to be for arm64: on a machine that starts it by itself the test would be
// of nothing.
func emulated(t *testing.T, path string) string {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if file.Machine != elf.EM_AARCH64 {
		t.Fatalf("%s is for %s", path, file.Machine)
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

// sample is examples/hello, whose upstream listens at a free port.
func sample(t *testing.T) string {
	t.Helper()
	port := strconv.Itoa(int(free.Address(t).Port()))
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
		t.Fatalf("the sample and its upstream no longer name the port 9002: %d files, %v", changed, err)
	}
	return folder
}
