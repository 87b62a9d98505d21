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

	"github.com/gatewright/gatewright/shared/tunnel"
)

// varRole makes the tests' binary one of the two machines of TestServiceWithoutARoute.
const varRole = "GATEWRIGHT_TEST_COMMAND_ROLE"

const (
	roleGateway = "gateway" // where the relay is, and whoever asks
	roleOffice  = "office"  // where the agent and the service are
)

// The addresses, of those that are for documentation (RFC 5737): the two ends of the one
// link that there is, and the service's, which no route leads to.
const (
	relayAddress   = "192.0.2.1"
	agentAddress   = "192.0.2.2"
	serviceAddress = "198.51.100.7:8080"
	relayPort      = "9003"
)

// TestServiceWithoutARoute has the gateway and the service in network namespaces of their own. The
// only link between them leads to the relay's address, and the service listens at an address that
// the gateway has no route to. That is proven first: a connection that is tried from there fails.
func TestServiceWithoutARoute(t *testing.T) {
	if _, err := ip(); err != nil {
		notHere(t, err)
	}
	path := filepath.Join(t.TempDir(), "gatewright") // as users have it
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
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
		notHere(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(timeout, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v:\n%s", err, &out)
	}
	for _, want := range []string{"direct: network is unreachable", "beside the link: connection refused", "tunnel: hello from the office"} {
		if !strings.Contains(out.String(), want+"\n") {
			t.Errorf("%q is missing in:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), token) {
		t.Error("the token is printed")
	}
}

// notHere skips where network namespaces can't be made, but not where they have to be: as
// root in continuous integration.
func notHere(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CI") != "" && os.Getuid() == 0 {
		t.Fatalf("network namespaces have to be possible in continuous integration: %v", err)
	}
	t.Skipf("it needs network namespaces and the command ip (iproute2), as root or with user namespaces: %v", err)
}

// ip finds the command, which is for administrators on some systems.
func ip() (string, error) {
	if path, err := exec.LookPath("ip"); err == nil {
		return path, nil
	}
	return exec.LookPath("/usr/sbin/ip")
}

// network runs lines of the command ip.
func network(lines ...string) error {
	path, err := ip()
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

// playGateway is the machine with the relay, in a namespace of its own.
func playGateway() error {
	office := exec.Command(os.Args[0])
	office.Env = append(os.Environ(), varRole+"="+roleOffice)
	office.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	office.Stderr = os.Stderr
	command, err := office.StdinPipe() // which ends with us
	if err != nil {
		return err
	}
	said, err := office.StdoutPipe()
	if err != nil {
		return err
	}
	if err := office.Start(); err != nil {
		return err
	}
	defer func() {
		_ = command.Close()
		_, _ = io.Copy(os.Stdout, said)
		_ = office.Wait()
	}()
	if err := network("link set lo up",
		fmt.Sprintf("link add relay0 type veth peer name agent0 netns %d", office.Process.Pid),
		"address add "+relayAddress+"/30 dev relay0", "link set relay0 up"); err != nil {
		return err
	}
	relay := tunnel.NewRelay(tunnel.RelayOptions{
		Authorize: func(_ context.Context, text string) (string, error) {
			return map[string]string{token: tunnelID}[text], nil
		},
		Services: func(context.Context, string) ([]tunnel.Service, error) {
			return []tunnel.Service{{Name: "stock", Endpoint: "http://" + serviceAddress, Access: []tunnel.Access{{Project: shop.Project, Environments: []string{shop.Environment}}}}}, nil
		},
		Log: slog.New(slog.NewTextHandler(os.Stdout, nil)),
	})
	l, err := net.Listen("tcp", net.JoinHostPort(relayAddress, relayPort))
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(l, relay) }()
	if _, err := io.WriteString(command, "go\n"); err != nil {
		return err
	}
	lines := bufio.NewScanner(said)
	for ready := false; !ready; {
		if !lines.Scan() {
			return fmt.Errorf("the office has ended: %w", lines.Err())
		}
		fmt.Println(lines.Text())
		ready = strings.Contains(lines.Text(), "connected: 2 of 2")
	}
	for what, address := range map[string]string{"direct": serviceAddress, "beside the link": agentAddress + ":8080"} {
		_, err := net.DialTimeout("tcp", address, 10*time.Second)
		cause, _ := errors.AsType[syscall.Errno](err)
		fmt.Printf("%s: %v\n", what, cause)
	}
	for deadline := time.Now().Add(timeout / 2); ; time.Sleep(time.Millisecond) {
		r, err := http.NewRequest(http.MethodGet, "http://stock/", nil)
		if err != nil {
			return err
		}
		response, err := relay.RoundTrip(r, tunnelID, "stock", shop)
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

// playOffice is the machine with the service and the agent, in a namespace of its own; it
// ends with its input.
func playOffice() error {
	in := bufio.NewScanner(os.Stdin)
	if !in.Scan() {
		return errors.New("nobody says go")
	}
	if err := network("link set lo up", "address add "+agentAddress+"/30 dev agent0", "link set agent0 up",
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
	agent := exec.Command(os.Getenv("GATEWRIGHT_TEST_COMMAND"), "tunnel", "connect", "--allow-plain-http", "--relay", "http://"+net.JoinHostPort(relayAddress, relayPort))
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
