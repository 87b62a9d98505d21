package scenario_test

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// needChromium gives the browser, and skips a test where there is none, but in continuous integration.
func needChromium(t *testing.T) browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "" {
			t.Skip("there is no chromium: the Debian package of that name has it")
		}
		t.Fatal(err)
	}
	return browser{t, path, true}
}

// browser is a Chromium without a window, which reaches this machine alone.
type browser struct {
	t       *testing.T
	path    string
	scripts bool // whether pages may have any
}

// profile is a folder of the browser's settings.
func (b browser) profile() string {
	b.t.Helper()
	folder := b.t.TempDir()
	if b.scripts {
		return folder
	}
	const blocked = `{"profile": {"default_content_setting_values": {"javascript": 2}}}`
	if err := os.Mkdir(filepath.Join(folder, "Default"), 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "Default", "Preferences"), []byte(blocked), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return folder
}

// run opens a page, and gives what the browser printed, and what it complained about in the console.
func (b browser) run(url string, flags ...string) (printed []byte, complaints string) {
	b.t.Helper()
	flags = append([]string{
		// The sandbox needs rights that containers and root do not have; pages are ours.
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--user-data-dir=" + b.profile(), "--enable-logging=stderr",
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
	}, flags...)
	cmd := exec.CommandContext(b.t.Context(), b.path, append(flags, url)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	printed, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("%s: %v\n%s", url, err, &said)
	}
	for line := range strings.Lines(said.String()) {
		if strings.Contains(line, ":CONSOLE:") {
			complaints += line
		}
	}
	return printed, complaints
}

// look takes a picture of a page.
func (b browser) look(url, size string, flags ...string) image.Image {
	b.t.Helper()
	file := filepath.Join(b.t.TempDir(), "page.png")
	b.run(url, append(flags, "--window-size="+size, "--screenshot="+file)...)
	raw, err := os.ReadFile(file)
	if err != nil {
		b.t.Fatal(err)
	}
	out, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// colors are how many different ones are in a picture, and whether its corner at the bottom is dark.
func colors(picture image.Image) (different int, dark bool) {
	seen, bounds := map[color.Color]bool{}, picture.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y += 2 {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			seen[picture.At(x, y)] = true
		}
	}
	corner, _ := color.GrayModel.Convert(picture.At(bounds.Max.X-2, bounds.Max.Y-2)).(color.Gray)
	return len(seen), corner.Y < 0x80
}

// TestDocumentationInABrowser opens pages as a reader does: all is there, the browser blocks nothing of
// it, the same without scripts, and it looks as its style has it, by day and by night.
func TestDocumentationInABrowser(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skip("it is about the browser, which has to be on the machine of the installation")
	}
	t.Parallel()
	b, in := needChromium(t), installation
	plain := b
	plain.scripts = false
	for path, want := range map[string][]string{
		"/docs":           {`<h1 id="documentation">`, `<a href="docs/limits">`, `aria-current="page"`},
		"/docs/":          {`<h1 id="documentation">`, `<a href="../docs/limits">`},
		"/docs/limits":    {`<h2 id="things">`, `<a href="../docs/reference">`, `<td align="right">100</td>`},
		"/docs/reference": {`<section class="operation" id="ApiKeyBucketsService_create">`, "curl -sS", "<details><summary>"},
	} {
		dom, complaints := b.run(in.api+path, "--dump-dom")
		if without, _ := plain.run(in.api+path, "--dump-dom"); !bytes.Equal(without, dom) {
			t.Errorf("%s is another page without scripts", path)
		}
		for _, part := range want {
			if !bytes.Contains(dom, []byte(part)) {
				t.Errorf("%s lacks %s:\n%.2000s", path, part, dom)
			}
		}
		if complaints != "" {
			t.Errorf("%s: %s", path, complaints)
		}
	}
	const light, night = "--blink-settings=preferredColorScheme=1", "--blink-settings=preferredColorScheme=0"
	const desk, narrow = "1280,900", "500,900" // the second is the narrowest there is without a window
	for _, path := range []string{"/docs", "/docs/reference"} {
		day := b.look(in.api+path, desk, light)
		if different, dark := colors(day); different < 50 || dark {
			t.Errorf("%s by day: %d colours, dark %t", path, different, dark)
		}
		if different, dark := colors(b.look(in.api+path, narrow, night)); different < 50 || !dark {
			t.Errorf("%s by night: %d colours, dark %t", path, different, dark)
		}
	}
}

// TestBrowserComplains keeps the test above honest: of a page that loads something, and has a style that
// its policy forbids, the browser does complain, and it does not show that style; a script runs where scripts
// may, and only there.
func TestBrowserComplains(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "page.html")
	const page = `<!DOCTYPE html><meta http-equiv="Content-Security-Policy" content="default-src 'none'">` +
		`<style>body { background: black; }</style><img src="http://images.example.com/a.png"><p>Words.`
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	b := needChromium(t)
	_, complaints := b.run("file://"+file, "--dump-dom")
	for _, part := range []string{"inline style", "images.example.com/a.png"} {
		if !strings.Contains(complaints, part) {
			t.Errorf("it does not complain about %s: %s", part, complaints)
		}
	}
	const scripted = `<!DOCTYPE html><p>Words.</p><script>document.body.append("and " + "more")</script>`
	if err := os.WriteFile(file+".html", []byte(scripted), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, b.scripts = range []bool{true, false} {
		if dom, _ := b.run("file://"+file+".html", "--dump-dom"); bytes.Contains(dom, []byte("and more")) != b.scripts {
			t.Errorf("scripts allowed %t, and it has\n%s", b.scripts, dom)
		}
	}
	if _, dark := colors(b.look("file://"+file, "500,300")); dark {
		t.Error("it has the style that the policy forbids")
	}
}
