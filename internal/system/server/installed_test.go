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

	"github.com/gatewright/gatewright/local/dev/emulator/process"
	"github.com/gatewright/gatewright/packaging/containertest"
	"github.com/gatewright/gatewright/shared/base/release"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/resource/issuance/pebbletest"
)

func TestMain(m *testing.M) {
	if process.IsCommand(os.Args[1:]) {
		os.Exit(process.Main(context.Background(), os.Args[1:]))
	}
	containertest.Main(m)
}

// TestScenarioSuite runs the scenario suite over HTTPS, with the names of a domain and with ACME certificates, against
// servers that are installed on an empty machine: from the image of `make image`, and from the archive of `make
// package`. The server from the archive runs with the command and the environment of its unit, as systemd reads them.
func TestScenarioSuite(t *testing.T) {
	if os.Getenv("GATEWRIGHT_TEST_SERVER") == "" {
		t.Skip("this test takes minutes, and needs the image and the archive: make test-server")
	}
	for name, install := range map[string]func(*testing.T, []string) containertest.Spec{
		"image": installImage,
		"unit":  installUnit,
	} {
		t.Run(name, func(t *testing.T) {
			a := pebbletest.Start(t)
			shared := containertest.NewVolumeFolder(t)
			if err := os.WriteFile(filepath.Join(shared, "authority.pem"), a.Certificate, 0o644); err != nil {
				t.Fatal(err)
			}
			s := newStoppedServer(t, "")
			a.ValidateAt(t, portOf(t, s.plain), portOf(t, s.secure))
			spec := install(t, []string{
				config.VarACMEDirectory + "=" + a.Directory, config.VarAPIAddr + "=127.0.0.1:0",
				config.VarGatewayAddr + "=" + s.plain,
				// the suite's upstreams are on this machine
				config.VarTLSAddr + "=" + s.secure, config.VarPrivateUpstreams + "=true",
				"SSL_CERT_FILE=/shared/authority.pem", config.VarReadyFile + "=/shared/ready",
			})
			s.data = spec.Volumes["/var/lib/gatewright"]
			spec.Volumes["/shared"] = shared
			p := containertest.Start(t, containertest.Command(t, spec))
			s.done = p.Done
			output := ""
			t.Cleanup(func() {
				if t.Failed() {
					// The suite's output names the failed story. It comes last, because people read the end first, and the
					// end is not cut off.
					t.Logf("the server printed:\n%s", p.Output())
					t.Logf("the suite printed:\n%s", output)
				}
			})
			s.until("it is ready", func() bool {
				_, err := os.Stat(filepath.Join(shared, "ready"))
				return err == nil
			})
			p.CheckConfined(t)
			output = s.suite(a)
			p.Stop(t)
		})
	}
}

// suite runs the scenario suite with a proxy that resolves the domain, and returns the suite's output.
func (s *server) suite(a *pebbletest.Authority) string {
	s.t.Helper()
	trusted := writeFile(s.t, filepath.Join(s.t.TempDir(), "roots.pem"), a.RootsPEM())
	curl := s.t.TempDir() // the folder of .curlrc, which suppresses curl's messages about the proxy
	writeFile(s.t, filepath.Join(curl, ".curlrc"), []byte("suppress-connect-headers\n"))
	suite := exec.CommandContext(s.t.Context(), "go", "test", "-count=1", "-timeout=15m", "./internal/system/scenario")
	suite.Dir = repository
	suite.Env = append(os.Environ(),
		"HTTPS_PROXY="+s.proxyURL(), "https_proxy=", "SSL_CERT_FILE="+trusted, "CURL_CA_BUNDLE="+trusted, "CURL_HOME="+curl,
		"NO_PROXY=",
		"GATEWRIGHT_SCENARIO_API=https://api."+domain, "GATEWRIGHT_SCENARIO_RELAY=https://relay."+domain,
		"GATEWRIGHT_SCENARIO_KEY="+s.key())
	out, err := suite.CombinedOutput()
	if err != nil {
		s.t.Errorf("run of the scenario suite: error = %v, want none", err)
	}
	return string(out)
}

// installImage installs the image for this machine, with settings that a container engine passes to it (docs/images.md).
func installImage(t *testing.T, settings []string) containertest.Spec {
	t.Helper()
	return containertest.ImageSpec(t, filepath.Join(repository, "dist", "images", "gatewright"),
		append(settings, config.VarDomain+"="+domain))
}

// installUnit unpacks the archive for this machine into an empty root. It returns the command and the environment of the unit. The settings
// file of the unit overrides the unit's own variables.
func installUnit(t *testing.T, settings []string) containertest.Spec {
	t.Helper()
	root := containertest.NewRoot(t)
	archive, err := os.Open(filepath.Join(repository, "dist",
		"gatewright-"+release.Version()+"-linux-"+runtime.GOARCH+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	z, err := gzip.NewReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	containertest.Unpack(t, root, z)
	unit := loadUnit(t, filepath.Join(root, "usr", "local", "lib", "systemd", "system"), "gatewright@"+domain+".service")

	settingsFile := filepath.Join(root, "etc", "gatewright", domain+".env")
	if err := errors.Join(os.MkdirAll(filepath.Dir(settingsFile), 0o755),
		os.WriteFile(settingsFile, []byte(strings.Join(settings, "\n")+"\n"), 0o600)); err != nil {
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
			t.Fatalf("the unit reads an environment file that this test has not written: %v", err)
		}
		set(strings.Fields(string(raw)))
	}
	s := containertest.Spec{
		Root: root, Args: strings.Fields(strings.Join(unit["Command Line"], "\n")),
		Volumes: map[string]string{},
	}
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		s.Env = append(s.Env, name+"="+environment[name])
	}
	for _, folder := range unit["StateDirectory"] {
		s.Volumes["/var/lib/"+folder] = containertest.NewVolumeFolder(t)
	}
	if slices.Equal(unit["PrivateTmp"], []string{"yes"}) {
		s.Volumes["/tmp"] = containertest.NewVolumeFolder(t)
	}
	return s
}

// loadUnit returns a unit as systemd loads it: the values that systemd prints about the unit in a dry run, by name.
// Systemd has already replaced specifiers in them.
func loadUnit(t *testing.T, folder, unit string) map[string][]string {
	t.Helper()
	const systemd = "/usr/lib/systemd/systemd"
	if _, err := os.Stat(systemd); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s does not exist, want it in continuous integration", systemd)
		}
		t.Skipf("systemd is not installed, which has to load the unit: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), systemd, "--test", "--system", "--no-pager", "--unit="+unit)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "SYSTEMD_UNIT_PATH=" + folder + ":"}
	if os.Getuid() == 0 { // systemd refuses a dry start as root
		const nobodyUID = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyUID, Gid: nobodyUID}}
	}
	out, err := cmd.CombinedOutput()
	_, properties, found := strings.Cut(string(out), "-> Unit "+unit+":\n")
	if !found {
		t.Fatalf("systemd does not load %s, want it loaded: %v: %s", unit, err, out)
	}
	properties, _, _ = strings.Cut(properties, "-> Unit ")
	lines := map[string][]string{}
	for line := range strings.SplitSeq(properties, "\n") {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			lines[name] = append(lines[name], value)
		}
	}
	if len(lines["Command Line"]) != 1 || !slices.Equal(lines["Unit Load State"], []string{"loaded"}) {
		t.Fatalf("systemd loads %s as %v, want the state loaded and one command line", unit, lines)
	}
	return lines
}
