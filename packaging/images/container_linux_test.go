package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/gatewright/gatewright/infra/image"
)

// varSpec makes the tests' binary the engine of a container: it has a spec as JSON.
const varSpec = "GATEWRIGHT_TEST_CONTAINER"

// spec is what an engine runs.
type spec struct {
	// Root is the unpacked image, which nothing can be written to but Volumes.
	Root string
	// Volumes are folders of the machine, by their paths in the container.
	Volumes   map[string]string
	Args, Env []string
}

func TestMain(m *testing.M) {
	if text := os.Getenv(varSpec); text != "" {
		fmt.Fprintln(os.Stderr, "container:", become(text))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// become makes this process, which is alone in its namespaces of mounts and users, the container's.
func become(text string) error {
	runtime.LockOSThread() // a thread has its own capabilities
	var s spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("keep mounts to itself: %w", err)
	}
	if err := unix.Mount(s.Root, s.Root, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount the root: %w", err)
	}
	for at, from := range s.Volumes {
		if err := unix.Mount(from, s.Root+at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("mount %s: %w", at, err)
		}
	}
	var of unix.Statfs_t
	if err := unix.Statfs(s.Root, &of); err != nil {
		return err
	}
	// What the machine's mount forbids, a mount of it in another user namespace has to forbid too.
	kept := uintptr(of.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME)
	if err := unix.Mount("", s.Root, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|kept, ""); err != nil {
		return fmt.Errorf("make the root read-only: %w", err)
	}
	if err := errors.Join(unix.Chroot(s.Root), unix.Chdir("/"),
		unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)); err != nil {
		return fmt.Errorf("enter the root: %w", err)
	}
	return syscall.Exec(s.Args[0], s.Args, s.Env)
}

// hostUser is who the image's user is on this machine: somebody whom root can be.
func hostUser() int {
	if os.Getuid() == 0 {
		return image.User
	}
	return os.Getuid()
}

// contained makes the command that runs an image of a layout as an engine does: its entrypoint with
// its environment, as its user and without any capability, over a root that cannot be written to but
// for its volumes, for which there are empty folders. It has this machine's network, /proc and /dev.
func contained(t *testing.T, layoutFolder string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	config, root := unpacked(t, layoutFolder)
	s := spec{Root: root, Volumes: map[string]string{"/proc": "/proc", "/dev": "/dev"}, Env: slices.Concat(config.Env, env)}
	s.Args = slices.Concat(config.Entrypoint, config.Cmd)
	if args != nil {
		s.Args = slices.Concat(config.Entrypoint, args)
	}
	for v := range config.Volumes {
		folder := t.TempDir()
		if err := errors.Join(os.Chown(folder, hostUser(), -1), os.Chmod(folder, 0o700)); err != nil {
			t.Fatal(err)
		}
		s.Volumes[v] = folder
	}
	for at := range s.Volumes { // an engine makes those that there are not
		if err := os.MkdirAll(root+at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{varSpec + "=" + string(text)}
	user, ok := strings.CutSuffix(config.User, ":"+fmt.Sprint(image.User))
	if !ok || user != fmt.Sprint(image.User) {
		t.Fatalf("the image's user is %q", config.User)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: image.User, HostID: hostUser(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: image.User, HostID: cmp.Or(os.Getgid(), image.User), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT},
		Credential:  &syscall.Credential{Uid: image.User, Gid: image.User, NoSetGroups: true},
		Pdeathsig:   syscall.SIGKILL,
	}
	return cmd
}

// started starts a contained command, and skips where the kernel lets nobody.
func started(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	err := cmd.Start()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOSPC) {
		if os.Getenv("CI") != "" && os.Getuid() == 0 {
			t.Fatalf("user namespaces have to be possible in continuous integration: %v", err)
		}
		t.Skipf("it needs user namespaces, as root or not: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// unpacked writes the root of a layout's image for this machine's architecture.
func unpacked(t *testing.T, layoutFolder string) (v1.Config, string) {
	t.Helper()
	found := ofLayout(t, layoutFolder, runtime.GOARCH)
	c, err := found.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(t.TempDir(), "root")
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	// The folders above are the test's alone, and the image's user is somebody else.
	for above := filepath.Dir(root); above != os.TempDir() && above != "/"; above = filepath.Dir(above) {
		if err := os.Chmod(above, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	files := mutate.Extract(found)
	defer func() { _ = files.Close() }()
	for r := tar.NewReader(files); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return c.Config, root
		}
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(root, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(at, 0o755)
		} else {
			var raw []byte
			if raw, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(at, raw, h.FileInfo().Mode())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// built compiles a program as make does, and gives where it is.
func built(t *testing.T, binaries, name, pkg string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(binaries, runtime.GOARCH, name), pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
}
