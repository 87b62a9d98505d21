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

// varSpec makes a tests' binary the engine of a container: it has a Spec as JSON.
const varSpec = "GATEWRIGHT_TEST_CONTAINER"

// Spec is what runs.
type Spec struct {
	// Root is the root's folder, which nothing can be written to but Volumes.
	Root string
	// Volumes are folders of the machine, by their paths in the container, which Command makes.
	Volumes map[string]string
	// Args are the command line, whose first is a path in Root.
	Args, Env []string
}

// Main is a TestMain: it runs the tests and then the functions after them, or is the container of a test.
func Main(m *testing.M, after ...func()) {
	if text := os.Getenv(varSpec); text != "" {
		fmt.Fprintln(os.Stderr, "container:", become(text))
		os.Exit(1)
	}
	run(m, after)
}

// become makes this process, which is alone in its namespaces of mounts and users, the container's. It returns where it
// cannot.
func become(text string) error {
	runtime.LockOSThread() // a thread has its own capabilities
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
	kept := uintptr(of.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME) //nolint:gosec // G115: flags
	if err := unix.Mount("", s.Root, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|kept, ""); err != nil {
		return fmt.Errorf("make the root read-only: %w", err)
	}
	if err := errors.Join(unix.Chroot(s.Root), unix.Chdir("/"),
		unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)); err != nil {
		return fmt.Errorf("enter the root: %w", err)
	}
	return syscall.Exec(s.Args[0], s.Args, s.Env) //nolint:gosec // G204: what the test runs
}

// User is who the container's user is on this machine: somebody whom root can be, and otherwise oneself.
func User() int {
	if os.Getuid() == 0 {
		return image.User
	}
	return os.Getuid()
}

// Folder is an empty folder of this machine, for a volume: the container's user alone has it.
func Folder(t testing.TB) string {
	t.Helper()
	folder := t.TempDir()
	if err := errors.Join(os.Chown(folder, User(), -1), os.Chmod(folder, 0o700)); err != nil { //nolint:gosec // G302: a folder
		t.Fatal(err)
	}
	return folder
}

// Command makes the command that runs s, as the user of the product's images and without any capability. Its environment
// is no other's: what s has not is not there. /proc and /dev are this machine's. Start starts it.
func Command(t testing.TB, s Spec) *exec.Cmd {
	t.Helper()
	volumes := map[string]string{"/proc": "/proc", "/dev": "/dev"}
	for at, from := range s.Volumes {
		volumes[at] = from
	}
	s.Volumes = volumes
	for at := range s.Volumes { // an engine makes those that there are not
		if err := os.MkdirAll(s.Root+at, 0o755); err != nil { //nolint:gosec // G301: the container's user looks there
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe") //nolint:noctx // a container ends by itself, and with who has started it
	cmd.Env = []string{varSpec + "=" + string(text)}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: image.User, HostID: User(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: image.User, HostID: cmp.Or(os.Getgid(), image.User), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT},
		Credential:  &syscall.Credential{Uid: image.User, Gid: image.User, NoSetGroups: true},
		Pdeathsig:   syscall.SIGKILL,
	}
	return cmd
}
