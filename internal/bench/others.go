package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gatewright/gatewright/internal/free"
)

// nginx is nginx as a proxy of the same upstream: Debian's package, its workers as many as there are processors, with kept connections
// and without a log.
type nginx struct {
	cmd     *exec.Cmd
	address string
}

func startNginx(ctx context.Context, dir, upstream string) (*nginx, error) {
	path, err := exec.LookPath("nginx")
	if err != nil {
		return nil, fmt.Errorf("find nginx: %w: install it with `apt-get install nginx-light`", err)
	}
	at, err := free.Find(ctx)
	if err != nil {
		return nil, err
	}
	n := &nginx{address: at.String()}
	config := fmt.Sprintf(`daemon off; worker_processes auto; pid %[1]s/nginx.pid; error_log stderr crit;
events { worker_connections 1024; }
http {
	access_log off; keepalive_requests 100000000;
	client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
	upstream up { server %[2]s; keepalive 256; keepalive_requests 100000000; }
	server { listen %[3]s; location / { proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host; } }
}
`, dir, upstream, n.address)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("configure nginx: %w", err)
	}
	n.cmd = exec.Command(path, "-p", dir, "-e", "stderr", "-c", file) //nolint:gosec,noctx // stop ends it
	n.cmd.Stderr = os.Stderr
	if err := n.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start nginx: %w", err)
	}
	for range 100 {
		if c, err := (&net.Dialer{}).DialContext(ctx, "tcp", n.address); err == nil {
			_ = c.Close()
			return n, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	n.stop()
	return nil, errors.New("nginx does not answer")
}

func (n *nginx) stop() {
	_ = n.cmd.Process.Signal(syscall.SIGTERM)
	_ = n.cmd.Wait()
}

// Processor implements load.Process: the master's time, and that of its workers.
func (n *nginx) Processor() (time.Duration, error) {
	children, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", n.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("find nginx's workers: %w", err)
	}
	var all time.Duration
	for _, pid := range append(strings.Fields(string(children)), strconv.Itoa(n.cmd.Process.Pid)) {
		used, err := processorOf(pid)
		if err != nil {
			return 0, err
		}
		all += used
	}
	return all, nil
}

// processorOf is the processor time that a process has used, in ticks of 10 ms (proc(5)).
func processorOf(pid string) (time.Duration, error) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat") //nolint:gosec // G304: of a process
	if err != nil {
		return 0, fmt.Errorf("look at a process's time: %w", err)
	}
	const user, system = 11, 12 // behind the name, which may hold anything
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= system {
		return 0, fmt.Errorf("/proc/PID/stat has %d fields", len(fields))
	}
	a, err1 := strconv.Atoi(fields[user])
	b, err2 := strconv.Atoi(fields[system])
	return time.Duration(a+b) * 10 * time.Millisecond, errors.Join(err1, err2)
}

// waiting is what clients have waited for: half of them at most so long, all but one in a hundred so long.
type waiting struct {
	requests int
	p50, p99 time.Duration
}

// wrk asks an address for a while with Debian's package of that name, one thread of it, and gives what its clients have waited.
func wrk(ctx context.Context, address, host, key, connections string, seconds int) (w waiting, err error) {
	cmd := exec.CommandContext(ctx, "wrk", "-t1", "-c"+connections, fmt.Sprintf("-d%ds", seconds), "--latency", //nolint:gosec // our own arguments
		"-H", "Host: "+host, "-H", "Authorization: Bearer "+key, "-H", "User-Agent: bench", "-H", "Accept: application/json", "-H", "Accept-Language: en",
		"http://"+address+target)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return w, fmt.Errorf("run wrk (`apt-get install wrk`): %w: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		switch {
		case len(f) == 2 && f[0] == "50%":
			w.p50, err = time.ParseDuration(f[1])
		case len(f) == 2 && f[0] == "99%":
			w.p99, err = time.ParseDuration(f[1])
		case len(f) > 3 && f[1] == "requests" && f[2] == "in":
			w.requests, err = strconv.Atoi(f[0])
		case strings.Contains(line, "Non-2xx"), strings.Contains(line, "Socket errors"):
			err = fmt.Errorf("not every request was answered as it should be: %s", strings.TrimSpace(line))
		}
		if err != nil {
			return w, fmt.Errorf("read what wrk says: %w", err)
		}
	}
	if w.requests == 0 {
		return w, fmt.Errorf("wrk has asked nothing: %s", out)
	}
	return w, nil
}
