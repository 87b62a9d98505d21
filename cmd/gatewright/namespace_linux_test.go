package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// varRole is the environment variable with the role of the test binary. In the roles roleGateway and roleOffice, it is
// one of the two machines of TestTunnelReachesIsolatedNetwork. binary_test.go has the other roles.
const varRole = "GATEWRIGHT_TEST_COMMAND_ROLE"

const (
	roleGateway = "gateway" // the machine with the relay and its clients
	roleOffice  = "office"  // the machine with the agent and the service
)

// These addresses are reserved for documentation (RFC 5737). relayAddress and agentAddress are the ends of the only
// link. The gateway has no route to serviceAddress.
const (
	relayAddress   = "192.0.2.1"
	agentAddress   = "192.0.2.2"
	serviceAddress = "198.51.100.7:8080"
	relayPort      = "9003"
)

// TestTunnelReachesIsolatedNetwork runs the gateway and the service in separate network namespaces. The only link
// between them ends at the relay's address, and the gateway has no route to the service's address. The test first
// checks that a direct connection fails.
func TestTunnelReachesIsolatedNetwork(t *testing.T) {
	if _, err := findIPCommand(); err != nil {
		skipWithoutNamespaces(t, err)
	}
	path := filepath.Join(t.TempDir(), "gatewright") // the binary as users install it
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build error = %v, want none: %s", err, out)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), varRole+"="+roleGateway, "GATEWRIGHT_TEST_COMMAND="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Start()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOSPC) {
		skipWithoutNamespaces(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(timeout, func() { _ = cmd.Process.Kill() })
	defer watchdog.Stop()
	if err := cmd.Wait(); err != nil {
		t.Errorf("Wait() error = %v, want none:\n%s", err, &out)
	}
	for _, want := range []string{
		"direct: network is unreachable", "beside the link: connection refused",
		"tunnel: hello from the office",
	} {
		if !strings.Contains(out.String(), want+"\n") {
			t.Errorf("output =\n%s\nwant %q", &out, want)
		}
	}
	if strings.Contains(out.String(), token) {
		t.Error("the output contains the token, want it left out")
	}
}

// skipWithoutNamespaces skips the test if network namespaces cannot be created, except where they are required: as root
// in continuous integration.
func skipWithoutNamespaces(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CI") != "" && os.Getuid() == 0 {
		t.Fatalf("creating a network namespace: %v, want success in continuous integration", err)
	}
	t.Skipf("it needs network namespaces and the command ip (iproute2), as root or with user namespaces: %v", err)
}

// findIPCommand returns the path of the command ip. On some systems, the command is only on the PATH of administrators.
func findIPCommand() (string, error) {
	if path, err := exec.LookPath("ip"); err == nil {
		return path, nil
	}
	return exec.LookPath("/usr/sbin/ip")
}

// runIPCommands runs the command ip for each line.
func runIPCommands(lines ...string) error {
	path, err := findIPCommand()
	if err != nil {
		return err
	}
	for _, line := range lines {
		if out, err := exec.Command(path, strings.Fields(line)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", line, err, out)
		}
	}
	return nil
}

// playRole runs one of the two machines, and returns the exit code.
func playRole(role string) int {
	play := playGateway
	if role == roleOffice {
		play = playOffice
	}
	if err := play(); err != nil {
		fmt.Println(role+":", err)
		return 1
	}
	return 0
}

// playGateway runs the machine with the relay in its own namespace.
func playGateway() error {
	office := exec.Command(os.Args[0])
	office.Env = append(os.Environ(), varRole+"="+roleOffice)
	office.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	office.Stderr = os.Stderr
	officeStdin, err := office.StdinPipe() // the office ends when this process ends
	if err != nil {
		return err
	}
	stdout, err := office.StdoutPipe()
	if err != nil {
		return err
	}
	if err := office.Start(); err != nil {
		return err
	}
	defer func() {
		_ = officeStdin.Close()
		_, _ = io.Copy(os.Stdout, stdout)
		_ = office.Wait()
	}()
	if err := runIPCommands("link set lo up",
		fmt.Sprintf("link add relay0 type veth peer name agent0 netns %d", office.Process.Pid),
		"address add "+relayAddress+"/30 dev relay0", "link set relay0 up"); err != nil {
		return err
	}
	relay := tunnel.NewRelay(tunnel.RelayOptions{
		Authenticate: func(_ context.Context, text string) (string, error) {
			return map[string]string{token: tunnelID}[text], nil
		},
		Services: func(context.Context, string) ([]tunnel.Service, error) {
			return []tunnel.Service{{
				Name: "stock", Endpoint: "http://" + serviceAddress,
				Access: []tunnel.Access{{Project: shopCaller.Project, Environments: []string{shopCaller.Environment}}},
			}}, nil
		},
		Log: slog.New(slog.NewTextHandler(os.Stdout, nil)),
	})
	l, err := net.Listen("tcp", net.JoinHostPort(relayAddress, relayPort))
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(l, relay) }()
	if _, err := io.WriteString(officeStdin, "go\n"); err != nil {
		return err
	}
	lines := bufio.NewScanner(stdout)
	for ready := false; !ready; {
		if !lines.Scan() {
			return fmt.Errorf("the office has ended: %w", lines.Err())
		}
		fmt.Println(lines.Text())
		ready = strings.Contains(lines.Text(), "connected: 2 of 2")
	}
	for description, address := range map[string]string{
		"direct":          serviceAddress,
		"beside the link": agentAddress + ":8080",
	} {
		_, err := net.DialTimeout("tcp", address, 10*time.Second)
		cause, _ := errors.AsType[syscall.Errno](err)
		fmt.Printf("%s: %v\n", description, cause)
	}
	for deadline := time.Now().Add(timeout / 2); ; time.Sleep(time.Millisecond) {
		r, err := http.NewRequest(http.MethodGet, "http://stock/", nil)
		if err != nil {
			return err
		}
		response, err := relay.RoundTrip(r, tunnelID, "stock", shopCaller)
		if errors.Is(err, tunnel.ErrNoAgent) && time.Now().Before(deadline) {
			continue
		}
		if err != nil {
			return err
		}
		text, err := io.ReadAll(response.Body)
		fmt.Printf("tunnel: %s\n", text)
		return err
	}
}

// playOffice runs the machine with the service and the agent in its own namespace. It ends when its standard input
// ends.
func playOffice() error {
	in := bufio.NewScanner(os.Stdin)
	if !in.Scan() {
		return errors.New("nobody says go")
	}
	if err := runIPCommands("link set lo up", "address add "+agentAddress+"/30 dev agent0", "link set agent0 up",
		"address add "+strings.TrimSuffix(serviceAddress, ":8080")+"/32 dev lo"); err != nil {
		return err
	}
	l, err := net.Listen("tcp", serviceAddress)
	if err != nil {
		return err
	}
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "hello from the office")
		}))
	}()
	agent := exec.Command(os.Getenv("GATEWRIGHT_TEST_COMMAND"), "tunnel", "connect", "--allow-plain-http", "--relay",
		"http://"+net.JoinHostPort(relayAddress, relayPort))
	agent.Env = []string{"TUNNEL_TOKEN=" + token}
	agent.Stdout, agent.Stderr = os.Stdout, os.Stderr
	signal.Ignore(os.Interrupt)
	if err := agent.Start(); err != nil {
		return err
	}
	for in.Scan() {
		continue
	}
	_ = agent.Process.Signal(syscall.SIGTERM)
	return agent.Wait()
}
