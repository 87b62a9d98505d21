package containertest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gatewright/gatewright/infra/image"
)

// varSpec is the variable that makes a test binary run a container instead of tests. Its value is a Spec as JSON.
const varSpec = "GATEWRIGHT_TEST_CONTAINER"

// Spec describes a container.
type Spec struct {
	// Root is the folder of the root file system. The container can write only to Volumes.
	Root string
	// Volumes are folders of the machine, by their paths in the container. Command creates these paths.
	Volumes map[string]string
	// Args are the command line. The first one is a path in Root. Env is the environment, as NAME=value.
	Args, Env []string
}

// Main implements TestMain: it runs the tests and then the functions in after. In a process with varSpec, it runs the
// command of the container instead.
func Main(m *testing.M, after ...func()) {
	if text := os.Getenv(varSpec); text != "" {
		fmt.Fprintln(os.Stderr, "container:", enterContainer(text))
		os.Exit(1)
	}
	run(m, after)
}

// enterContainer sets up the container in this process, which already has its own mount and user namespaces, and
// replaces the process with the container's command. It returns only if an error occurs.
func enterContainer(text string) error {
	runtime.LockOSThread() // each thread has its own capabilities
	var s Spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("keep mounts to itself: %w", err)
	}
	if err := unix.Mount(s.Root, s.Root, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount the root: %w", err)
	}
	for path, source := range s.Volumes {
		if err := unix.Mount(source, s.Root+path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("mount %s: %w", path, err)
		}
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(s.Root, &stat); err != nil {
		return err
	}
	// In another user namespace, a mount must have all restrictions of the machine's mount.
	mountFlags := uintptr(stat.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME) //nolint:gosec // G115: flags
	if err := unix.Mount("", s.Root, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|mountFlags, ""); err != nil {
		return fmt.Errorf("make the root read-only: %w", err)
	}
	if err := errors.Join(unix.Chroot(s.Root), unix.Chdir("/"),
		unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0),
		unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)); err != nil {
		return fmt.Errorf("enter the root: %w", err)
	}
	return syscall.Exec(s.Args[0], s.Args, s.Env) //nolint:gosec // G204: the test's command
}

// HostUserID returns the ID that the container's user has on this machine: a separate user if this process runs as
// root, and otherwise the user of this process.
func HostUserID() int {
	if os.Getuid() == 0 {
		return image.UserID
	}
	return os.Getuid()
}

// NewVolumeFolder creates an empty folder on this machine for a volume. Only the container's user has access.
func NewVolumeFolder(t testing.TB) string {
	t.Helper()
	folder := t.TempDir()
	//nolint:gosec // G302: a folder
	if err := errors.Join(os.Chown(folder, HostUserID(), -1), os.Chmod(folder, 0o700)); err != nil {
		t.Fatal(err)
	}
	return folder
}

// Command returns the command that runs s, as the user of the product's images and without any capability. The command
// has only the environment of s, and /proc and /dev of this machine. Run the command with Start.
func Command(t testing.TB, s Spec) *exec.Cmd {
	t.Helper()
	volumes := map[string]string{"/proc": "/proc", "/dev": "/dev"}
	for path, source := range s.Volumes {
		volumes[path] = source
	}
	s.Volumes = volumes
	for path := range s.Volumes { // like an engine, create missing paths of volumes
		if err := os.MkdirAll(s.Root+path, 0o755); err != nil { //nolint:gosec // G301: the container's user must enter it
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe") //nolint:noctx // the test stops the container, and it ends with its parent
	cmd.Env = []string{varSpec + "=" + string(text)}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: image.UserID, HostID: HostUserID(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: image.UserID, HostID: cmp.Or(os.Getgid(), image.UserID), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT},
		Credential:  &syscall.Credential{Uid: image.UserID, Gid: image.UserID, NoSetGroups: true},
		Pdeathsig:   syscall.SIGKILL,
	}
	return cmd
}
