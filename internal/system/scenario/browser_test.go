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

// browser is a headless Chromium that can connect only to this machine. It executes commands of the DevTools protocol that it reads from
// a pipe.
type browser struct {
	t         *testing.T
	commands  io.Writer
	responses *bufio.Reader
	last      int    // the id of the last command
	tab       string // the session of the browser's tab, "" before the tab exists
	loaded    string // the loader of the last page that was loaded
	// consoleErrors contains the messages of the browser's console about the open page.
	consoleErrors string
}

// newBrowser starts a browser that ends with the test. It skips the test if Chromium is not installed, but fails it in continuous
// integration.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "" {
			t.Skip("chromium is not installed: the Debian package chromium contains it")
		}
		t.Fatal(err)
	}
	childCommands, commands, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	responses, childResponses, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// The browser ends when the pipe with its commands is closed, after it has written everything into its folder.
	cmd := exec.Command(path,
		// The sandbox needs permissions that containers and root do not have. The browser opens only pages of the test.
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
	var output bytes.Buffer
	cmd.Stderr, cmd.ExtraFiles = &output, []*os.File{childCommands, childResponses}
	err = cmd.Start()
	_, _ = childCommands.Close(), childResponses.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = commands.Close()
		_ = cmd.Wait()
		_ = responses.Close()
		if t.Failed() {
			t.Logf("the browser printed:\n%s", &output)
		}
	})
	b := &browser{t: t, commands: commands, responses: bufio.NewReader(responses)}
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

// call executes a command in the browser's tab, and decodes the result into result.
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
		id, callErr, response := b.next()
		if id != b.last {
			continue
		}
		if callErr != nil {
			b.t.Fatalf("%s(%v) = error %s, want a result", method, parameters, callErr)
		}
		if err := json.Unmarshal(response, result); result != nil && err != nil {
			b.t.Fatalf("decode the result of %s = %v, want no error, of %s", method, err, response)
		}
		return
	}
}

// next reads the next response or event. An event has the id 0.
func (b *browser) next() (id int, callErr, result json.RawMessage) {
	b.t.Helper()
	raw, err := b.responses.ReadBytes(0)
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
		b.consoleErrors += string(m.Params) + "\n"
	}
	return m.ID, m.Error, m.Result
}

// view is the configuration with which a page is opened.
type view struct {
	scripts       bool // whether the page can run scripts
	dark          bool
	width, height int
}

// open opens a page. It returns the document, a screenshot, and the browser's messages in the console.
func (b *browser) open(address string, v view) (document string, picture image.Image, consoleErrors string) {
	b.t.Helper()
	scheme := map[bool]string{false: "light", true: "dark"}[v.dark]
	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": !v.scripts}, nil)
	b.call("Emulation.setEmulatedMedia",
		map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	b.call("Emulation.setDeviceMetricsOverride",
		map[string]any{"width": v.width, "height": v.height, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.consoleErrors = ""
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
	return html.OuterHTML, picture, b.consoleErrors
}

// colorsOf returns the number of different colors in a picture, and whether its bottom corner is dark.
func colorsOf(picture image.Image) (different int, dark bool) {
	seen, bounds := map[color.Color]bool{}, picture.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y += 2 {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			seen[picture.At(x, y)] = true
		}
	}
	corner, _ := color.GrayModel.Convert(picture.At(bounds.Max.X-2, bounds.Max.Y-2)).(color.Gray)
	return len(seen), corner.Y < 0x80
}

// TestDocumentationInABrowser opens pages as a user does. It checks that a page is complete with and without scripts,
// that the browser blocks no part of it, and that it has the colors of its style by day and by night.
func TestDocumentationInABrowser(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skip(varAPI + " selects an installation, but the browser can connect only to this machine")
	}
	t.Parallel()
	b, inst := newBrowser(t), installation
	desk := view{scripts: true, width: 1280, height: 900}
	plain, narrow := desk, view{scripts: true, dark: true, width: 500, height: 900}
	plain.scripts = false
	for path, want := range map[string][]string{
		"/docs":           {`<h1 id="documentation">`, `<a href="docs/limits">`, `aria-current="page"`},
		"/docs/":          {`<h1 id="documentation">`, `<a href="../docs/limits">`},
		"/docs/limits":    {`<h2 id="things">`, `<a href="../docs/reference">`, `<td align="right">100</td>`},
		"/docs/reference": {`<section class="operation" id="ApiKeyBucketsService_create">`, "curl -sS", "<details><summary>"},
	} {
		dom, day, consoleErrors := b.open(inst.api+path, desk)
		if plainText, _, _ := b.open(inst.api+path, plain); plainText != dom {
			t.Errorf("the page %s differs without scripts, want the same page", path)
		}
		for _, part := range want {
			if !strings.Contains(dom, part) {
				t.Errorf("the page %s lacks %s, want it there:\n%.2000s", path, part, dom)
			}
		}
		if consoleErrors != "" {
			t.Errorf("the page %s: the browser reports %s, want no errors", path, consoleErrors)
		}
		if different, dark := colorsOf(day); different < 50 || dark {
			t.Errorf("%s by day has %d colors and dark = %t, want 50 or more and false", path, different, dark)
		}
		if path == "/docs/" || path == "/docs/limits" {
			continue // these pages have the same style as the others
		}
		_, night, _ := b.open(inst.api+path, narrow)
		if different, dark := colorsOf(night); different < 50 || !dark {
			t.Errorf("%s by night has %d colors and dark = %t, want 50 or more and true", path, different, dark)
		}
	}
	t.Run("the checks can fail", b.checkErrorReports)
}

// checkErrorReports checks that the checks of TestDocumentationInABrowser can fail. The browser must report pictures
// and styles that the policy of a page forbids, and must not apply such a style. A script must run only if scripts are
// enabled, and a style for the night must apply only by night.
func (b *browser) checkErrorReports(t *testing.T) {
	b.t = t
	file := filepath.Join(t.TempDir(), "page.html")
	const page = `<!DOCTYPE html><meta http-equiv="Content-Security-Policy" content="default-src 'none'">` +
		`<style>body { background: black; }</style><img src="http://images.example.com/a.png"><p>Words.`
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	v := view{scripts: true, width: 500, height: 300}
	_, picture, consoleErrors := b.open("file://"+file, v)
	for _, part := range []string{"inline style", "images.example.com/a.png"} {
		if !strings.Contains(consoleErrors, part) {
			t.Errorf("the browser reports %q, want an error about %s", consoleErrors, part)
		}
	}
	if _, dark := colorsOf(picture); dark {
		t.Error("the page has the style that the policy forbids, want the default style")
	}
	const scripted = `<!DOCTYPE html><p>Words.</p><script>document.body.append("and " + "more"); console.warn("a script runs")</script>`
	if err := os.WriteFile(file+".html", []byte(scripted), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, v.scripts = range []bool{true, false} {
		dom, _, consoleErrors := b.open("file://"+file+".html", v)
		if strings.Contains(dom, "and more") != v.scripts || strings.Contains(consoleErrors, "a script runs") != v.scripts {
			t.Errorf("open(scripts = %t): console messages = %q, script has run = %t, want both only with scripts:\n%s",
				v.scripts, consoleErrors, strings.Contains(dom, "and more"), dom)
		}
	}
	const lightPage = `<!DOCTYPE html><style>@media (prefers-color-scheme: dark) { body { background: black; } }</style><p>Words.`
	if err := os.WriteFile(file+".night.html", []byte(lightPage), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, v.dark = range []bool{true, false} {
		if _, picture, _ := b.open("file://"+file+".night.html", v); picture.Bounds().Dx() != v.width {
			t.Errorf("the picture is %v, want a width of %d", picture.Bounds(), v.width)
		} else if _, dark := colorsOf(picture); dark != v.dark {
			t.Errorf("open(dark = %t): the page is dark = %t, want %t", v.dark, dark, v.dark)
		}
	}
}
