package scenario_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// browser is a Chromium without a window, which reaches this machine alone. It takes commands of the DevTools protocol from a pipe.
type browser struct {
	t        *testing.T
	commands io.Writer
	answers  *bufio.Reader
	last     int    // the id of the last command
	tab      string // the session of its tab, "" until there is one
	loaded   string // the loader of the last page that is loaded
	// complaints are what the console has shown of the page that is open.
	complaints string
}

// newBrowser starts a browser that ends with the test. It skips the test where there is no Chromium, but fails it in continuous integration.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "" {
			t.Skip("there is no chromium: the Debian package of that name has it")
		}
		t.Fatal(err)
	}
	theirs, commands, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, answered, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// The end of its commands ends it, after it has written what it writes into its folder.
	cmd := exec.Command(path,
		// The sandbox needs rights that containers and root do not have; pages are ours.
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
	var said bytes.Buffer
	cmd.Stderr, cmd.ExtraFiles = &said, []*os.File{theirs, answered}
	err = cmd.Start()
	_, _ = theirs.Close(), answered.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = commands.Close()
		_ = cmd.Wait()
		_ = answers.Close()
		if t.Failed() {
			t.Logf("the browser printed:\n%s", &said)
		}
	})
	b := &browser{t: t, commands: commands, answers: bufio.NewReader(answers)}
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.tab = attached.SessionID
	for _, domain := range []string{"Page", "Log", "Runtime"} {
		b.call(domain+".enable", nil, nil)
	}
	b.call("Page.setLifecycleEventsEnabled", map[string]any{"enabled": true}, nil)
	return b
}

// call has the browser execute a command in its tab, and reads the result into result.
func (b *browser) call(method string, parameters map[string]any, result any) {
	b.t.Helper()
	b.last++
	raw, err := json.Marshal(struct {
		ID        int            `json:"id"`
		Method    string         `json:"method"`
		Params    map[string]any `json:"params,omitempty"`
		SessionID string         `json:"sessionId,omitempty"`
	}{b.last, method, parameters, b.tab})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.commands.Write(append(raw, 0)); err != nil {
		b.t.Fatalf("write the command %s = %v, want no error", method, err)
	}
	for {
		id, refused, answer := b.next()
		if id != b.last {
			continue
		}
		if refused != nil {
			b.t.Fatalf("%s(%v) = error %s, want a result", method, parameters, refused)
		}
		if err := json.Unmarshal(answer, result); result != nil && err != nil {
			b.t.Fatalf("decode the result of %s = %v, want no error, of %s", method, err, answer)
		}
		return
	}
}

// next reads the next answer, or the next event, which has the id 0.
func (b *browser) next() (id int, refused, result json.RawMessage) {
	b.t.Helper()
	raw, err := b.answers.ReadBytes(0)
	if err != nil {
		b.t.Fatalf("read from the browser = %v, want a message: it has ended", err)
	}
	var m struct {
		ID                    int
		Method                string
		Error, Result, Params json.RawMessage
	}
	if err := json.Unmarshal(raw[:len(raw)-1], &m); err != nil {
		b.t.Fatalf("decode a message of the browser = %v, want no error, of %s", err, raw)
	}
	switch m.Method {
	case "Page.lifecycleEvent":
		var event struct{ Name, LoaderID string }
		if err := json.Unmarshal(m.Params, &event); err != nil {
			b.t.Fatalf("decode an event of the browser = %v, want no error, of %s", err, raw)
		}
		if event.Name == "load" {
			b.loaded = event.LoaderID
		}
	case "Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown":
		b.complaints += string(m.Params) + "\n"
	}
	return m.ID, m.Error, m.Result
}

// view is how a page is opened.
type view struct {
	scripts       bool // whether the page may have any
	night         bool
	width, height int
}

// open opens a page and returns its document, a picture of it, and what the browser complained about in the console.
func (b *browser) open(address string, v view) (document string, picture image.Image, complaints string) {
	b.t.Helper()
	scheme := map[bool]string{false: "light", true: "dark"}[v.night]
	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": !v.scripts}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": v.width, "height": v.height, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.complaints = ""
	var opened struct{ ErrorText, LoaderID string }
	b.call("Page.navigate", map[string]any{"url": address}, &opened)
	if opened.ErrorText != "" {
		b.t.Fatalf("open %s = %s, want a page", address, opened.ErrorText)
	}
	for b.loaded != opened.LoaderID {
		b.next()
	}
	var shot struct{ Data []byte }
	b.call("Page.captureScreenshot", nil, &shot)
	picture, err := png.Decode(bytes.NewReader(shot.Data))
	if err != nil {
		b.t.Fatal(err)
	}
	var root struct{ Root struct{ NodeID int } }
	b.call("DOM.getDocument", map[string]any{"depth": 0}, &root)
	var html struct{ OuterHTML string }
	b.call("DOM.getOuterHTML", map[string]any{"nodeId": root.Root.NodeID}, &html)
	return html.OuterHTML, picture, b.complaints
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

// TestDocumentationInABrowser opens pages as a reader does. All of a page is there, with scripts and without them, the browser blocks nothing
// of it, and it looks as its style says by day and by night.
func TestDocumentationInABrowser(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skip("it is about the browser, which has to be on the machine of the installation")
	}
	t.Parallel()
	b, in := newBrowser(t), installation
	desk := view{scripts: true, width: 1280, height: 900}
	plain, narrow := desk, view{scripts: true, night: true, width: 500, height: 900}
	plain.scripts = false
	for path, want := range map[string][]string{
		"/docs":           {`<h1 id="documentation">`, `<a href="docs/limits">`, `aria-current="page"`},
		"/docs/":          {`<h1 id="documentation">`, `<a href="../docs/limits">`},
		"/docs/limits":    {`<h2 id="things">`, `<a href="../docs/reference">`, `<td align="right">100</td>`},
		"/docs/reference": {`<section class="operation" id="ApiKeyBucketsService_create">`, "curl -sS", "<details><summary>"},
	} {
		dom, day, complaints := b.open(in.api+path, desk)
		if without, _, _ := b.open(in.api+path, plain); without != dom {
			t.Errorf("%s is another page without scripts", path)
		}
		for _, part := range want {
			if !strings.Contains(dom, part) {
				t.Errorf("%s lacks %s:\n%.2000s", path, part, dom)
			}
		}
		if complaints != "" {
			t.Errorf("%s: %s", path, complaints)
		}
		if different, dark := colors(day); different < 50 || dark {
			t.Errorf("%s by day has %d colors and dark = %t, want 50 or more and false", path, different, dark)
		}
		if path == "/docs/" || path == "/docs/limits" {
			continue // they have the style of the others
		}
		_, night, _ := b.open(in.api+path, narrow)
		if different, dark := colors(night); different < 50 || !dark {
			t.Errorf("%s by night has %d colors and dark = %t, want 50 or more and true", path, different, dark)
		}
	}
	t.Run("it complains", b.complains)
}

// complains keeps the test above honest: the browser complains about a page that loads something and has a style that its policy forbids, and
// does not show that style. A script runs only where scripts may, and a style for the night shows by night.
func (b *browser) complains(t *testing.T) {
	b.t = t
	file := filepath.Join(t.TempDir(), "page.html")
	const page = `<!DOCTYPE html><meta http-equiv="Content-Security-Policy" content="default-src 'none'">` +
		`<style>body { background: black; }</style><img src="http://images.example.com/a.png"><p>Words.`
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	v := view{scripts: true, width: 500, height: 300}
	_, picture, complaints := b.open("file://"+file, v)
	for _, part := range []string{"inline style", "images.example.com/a.png"} {
		if !strings.Contains(complaints, part) {
			t.Errorf("it does not complain about %s: %s", part, complaints)
		}
	}
	if _, dark := colors(picture); dark {
		t.Error("it has the style that the policy forbids")
	}
	const scripted = `<!DOCTYPE html><p>Words.</p><script>document.body.append("and " + "more"); console.warn("a script runs")</script>`
	if err := os.WriteFile(file+".html", []byte(scripted), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, v.scripts = range []bool{true, false} {
		dom, _, complaints := b.open("file://"+file+".html", v)
		if strings.Contains(dom, "and more") != v.scripts || strings.Contains(complaints, "a script runs") != v.scripts {
			t.Errorf("open(scripts = %t) = complaints %q and a page with the script's words = %t, want both only with scripts, of\n%s",
				v.scripts, complaints, strings.Contains(dom, "and more"), dom)
		}
	}
	const lit = `<!DOCTYPE html><style>@media (prefers-color-scheme: dark) { body { background: black; } }</style><p>Words.`
	if err := os.WriteFile(file+".night.html", []byte(lit), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, v.night = range []bool{true, false} {
		if _, picture, _ := b.open("file://"+file+".night.html", v); picture.Bounds().Dx() != v.width {
			t.Errorf("the picture is %v, want a width of %d", picture.Bounds(), v.width)
		} else if _, dark := colors(picture); dark != v.night {
			t.Errorf("open(night = %t) = a dark page %t, want %t", v.night, dark, v.night)
		}
	}
}
