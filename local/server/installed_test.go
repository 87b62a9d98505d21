//go:build linux

package server_test

import (
	"compress/gzip"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gatewright/gatewright/local/emulator/process"
	"github.com/gatewright/gatewright/packaging/containertest"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/issuance/pebbletest"
	"github.com/gatewright/gatewright/shared/release"
)

func TestMain(m *testing.M) {
	if process.Is(os.Args[1:]) {
		os.Exit(process.Main(context.Background(), os.Args[1:]))
	}
	containertest.Main(m)
}

// TestScenarioSuite goes over HTTPS, by the names of a domain and with certificates by ACME, through what a user installs
// on a machine that has nothing: the image, as `make image` wrote it, and the archive of `make package` with the command
// and the environment of its unit, as systemd reads it.
func TestScenarioSuite(t *testing.T) {
	if os.Getenv("GATEWRIGHT_TEST_SERVER") == "" {
		t.Skip("it takes minutes, and what is installed: make test-server")
	}
	for name, install := range map[string]func(*testing.T, []string) containertest.Spec{"image": byImage, "unit": byUnit} {
		t.Run(name, func(t *testing.T) {
			a := pebbletest.Start(t)
			beside := containertest.Folder(t)
			if err := os.WriteFile(filepath.Join(beside, "authority.pem"), a.Certificate, 0o644); err != nil {
				t.Fatal(err)
			}
			s := unstarted(t, "")
			a.LookAt(t, portOf(t, s.plain), portOf(t, s.secure))
			spec := install(t, []string{
				config.VarACMEDirectory + "=" + a.Directory, config.VarAPIAddr + "=127.0.0.1:0", config.VarGatewayAddr + "=" + s.plain,
				config.VarTLSAddr + "=" + s.secure, config.VarPrivateUpstreams + "=true", // the suite's, on this machine
				"SSL_CERT_FILE=/beside/authority.pem", config.VarReadyFile + "=/beside/ready",
			})
			s.data = spec.Volumes["/var/lib/gatewright"]
			spec.Volumes["/beside"] = beside
			p := containertest.Start(t, containertest.Command(t, spec))
			s.ended = p.Gone
			said := ""
			t.Cleanup(func() {
				if t.Failed() { // which story has failed stands at the end, where logs are read first and cut last
					t.Logf("the server printed:\n%s", p.Output())
					t.Logf("the suite printed:\n%s", said)
				}
			})
			s.until("it is ready", func() bool {
				_, err := os.Stat(filepath.Join(beside, "ready"))
				return err == nil
			})
			p.Confined(t)
			said = s.suite(a)
			p.End(t)
		})
	}
}

// suite runs the scenario suite as somebody who finds the domain by a proxy, and gives what it printed.
func (s *server) suite(a *pebbletest.Authority) string {
	s.t.Helper()
	trusted := written(s.t, filepath.Join(s.t.TempDir(), "roots.pem"), a.RootsPEM())
	curl := s.t.TempDir() // its own words with the proxy are no part of an answer
	written(s.t, filepath.Join(curl, ".curlrc"), []byte("suppress-connect-headers\n"))
	suite := exec.CommandContext(s.t.Context(), "go", "test", "-count=1", "-timeout=15m", "./local/scenario")
	suite.Dir = repository
	suite.Env = append(os.Environ(),
		"HTTPS_PROXY="+s.proxied(), "https_proxy=", "SSL_CERT_FILE="+trusted, "CURL_CA_BUNDLE="+trusted, "CURL_HOME="+curl, "NO_PROXY=",
		"GATEWRIGHT_SCENARIO_API=https://api."+domain, "GATEWRIGHT_SCENARIO_RELAY=https://relay."+domain, "GATEWRIGHT_SCENARIO_KEY="+s.key())
	out, err := suite.CombinedOutput()
	if err != nil {
		s.t.Error(err)
	}
	return string(out)
}

// byImage installs the image for this machine, with settings as an engine gives them (docs/images.md).
func byImage(t *testing.T, settings []string) containertest.Spec {
	t.Helper()
	return containertest.OfImage(t, filepath.Join(repository, "dist", "images", "gatewright"), append(settings, config.VarDomain+"="+domain))
}

// byUnit unpacks the archive for this machine into an empty root and gives what its unit starts there: the command, the
// unit's environment, and over it the file with settings that the unit names.
func byUnit(t *testing.T, settings []string) containertest.Spec {
	t.Helper()
	root := containertest.Root(t)
	archive, err := os.Open(filepath.Join(repository, "dist", "gatewright-"+release.Version()+"-linux-"+runtime.GOARCH+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	z, err := gzip.NewReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	containertest.Unpack(t, root, z)
	unit := loaded(t, filepath.Join(root, "usr", "local", "lib", "systemd", "system"), "gatewright@"+domain+".service")

	own := filepath.Join(root, "etc", "gatewright", domain+".env")
	if err := errors.Join(os.MkdirAll(filepath.Dir(own), 0o755), os.WriteFile(own, []byte(strings.Join(settings, "\n")+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	environment := map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"}
	set := func(lines []string) {
		for _, line := range lines {
			name, value, _ := strings.Cut(line, "=")
			environment[name] = value
		}
	}
	set(unit["Environment"])
	for _, path := range unit["EnvironmentFile"] {
		raw, err := os.ReadFile(root + strings.TrimPrefix(path, "-"))
		if err != nil {
			t.Fatalf("the unit reads another file than docs/images.md says: %v", err)
		}
		set(strings.Fields(string(raw)))
	}
	s := containertest.Spec{Root: root, Args: strings.Fields(strings.Join(unit["Command Line"], "\n")), Volumes: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		s.Env = append(s.Env, name+"="+environment[name])
	}
	for _, folder := range unit["StateDirectory"] {
		s.Volumes["/var/lib/"+folder] = containertest.Folder(t)
	}
	if slices.Equal(unit["PrivateTmp"], []string{"yes"}) {
		s.Volumes["/tmp"] = containertest.Folder(t)
	}
	return s
}

// loaded is a unit as systemd has it once it is loaded: what it prints of the unit in a dry start, by the names of the
// lines. Specifiers have their values by then.
func loaded(t *testing.T, folder, unit string) map[string][]string {
	t.Helper()
	const systemd = "/usr/lib/systemd/systemd"
	if _, err := os.Stat(systemd); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("systemd has to be installed in continuous integration")
		}
		t.Skipf("it needs systemd, which reads the unit: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), systemd, "--test", "--system", "--no-pager", "--unit="+unit)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "SYSTEMD_UNIT_PATH=" + folder + ":"}
	if os.Getuid() == 0 { // it starts nothing dry for root
		const nobody = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	out, err := cmd.CombinedOutput()
	_, of, found := strings.Cut(string(out), "-> Unit "+unit+":\n")
	if !found {
		t.Fatalf("systemd does not load %s: %v: %s", unit, err, out)
	}
	of, _, _ = strings.Cut(of, "-> Unit ")
	lines := map[string][]string{}
	for line := range strings.SplitSeq(of, "\n") {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			lines[name] = append(lines[name], value)
		}
	}
	if len(lines["Command Line"]) != 1 || !slices.Equal(lines["Unit Load State"], []string{"loaded"}) {
		t.Fatalf("systemd loads %s as %v", unit, lines)
	}
	return lines
}
