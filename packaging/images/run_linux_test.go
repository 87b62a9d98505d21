package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/internal/free"
	"github.com/gatewright/gatewright/packaging/containertest"
	"github.com/gatewright/gatewright/shared/config"
)

// contained makes the command that runs an image of a layout, with more in its environment.
func contained(t *testing.T, layoutFolder string, env ...string) *exec.Cmd {
	t.Helper()
	return containertest.Command(t, containertest.OfImage(t, layoutFolder, env))
}

// made returns the folder with the images of the product and of the services.
func made(t *testing.T) (folder string) {
	t.Helper()
	folder, err := product()
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestImagesHaveRootsOfTheirOwn: a container has no certificates of a system, so that authorities, upstreams and
// AWS would be strangers to what is in it.
func TestImagesHaveRootsOfTheirOwn(t *testing.T) {
	folder := made(t)
	for _, p := range programs(repository, "serve") {
		bill, err := os.ReadFile(filepath.Join(folder, p.name+"-"+runtime.GOARCH+".cdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(bill), `"pkg:golang/golang.org/x/crypto/x509roots/fallback@`) {
			t.Errorf("%s links no x509roots/fallback", p.name)
		}
	}
}

// TestImagesRunAsAnEngineRunsThem has nothing but what is in the images.
func TestImagesRunAsAnEngineRunsThem(t *testing.T) {
	folder := made(t)
	t.Run("the product's help", func(t *testing.T) {
		p := containertest.Start(t, containertest.Command(t, containertest.OfImage(t, filepath.Join(folder, "gatewright"), nil, "--help")))
		<-p.Gone
		if p.State != nil || !strings.Contains(p.Output(), "Usage:") {
			t.Errorf("%v: %s", p.State, p.Output())
		}
	})
	t.Run("the relay's health", func(t *testing.T) {
		address := free.Address(t).String()
		cmd := contained(t, filepath.Join(folder, "gatewright-relay"),
			// Over an emulator its port has no TLS. None is there: health asks nothing of it.
			"AWS_ENDPOINT_URL=http://127.0.0.1:1", "AWS_REGION=eu-west-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test",
			config.VarTable+"=table", config.VarBucket+"=bucket", config.VarKMSKey+"=key", config.VarRelayAddr+"="+address,
			config.VarDeploymentURL+"=https://{deployment}.apis.example.com", config.VarRelay+"=https://relay.example.com",
		)
		p := containertest.Start(t, cmd)
		until(t, p, "http://"+address+"/health", http.StatusOK)
		p.Confined(t)
		p.End(t)
	})
}

// TestProductKeepsToItsVolume: with nothing else to write to, it makes its data, compiles a project in a
// process of its own and serves it.
func TestProductKeepsToItsVolume(t *testing.T) {
	folder := made(t)
	api, gateway := free.Address(t).String(), free.Address(t).String()
	cmd := contained(t, filepath.Join(folder, "gatewright"),
		// As behind a proxy that ends TLS; the sample's upstream is at a private address.
		config.VarDomain+"=gatewright.test", config.VarAPIAddr+"="+api, config.VarGatewayAddr+"="+gateway, config.VarTLSAddr+"=none",
		config.VarPrivateUpstreams+"=true",
	)
	p := containertest.Start(t, cmd)
	until(t, p, "http://"+api+"/health", http.StatusOK, http.StatusNotFound, http.StatusUnauthorized)
	p.Confined(t)
	key := p.File(t, dataDir+"/account-key")
	ask := func(method, path, body string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+api+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		out, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = out.Body.Close() }()
		raw, err := io.ReadAll(out.Body)
		if err != nil || out.StatusCode >= http.StatusMultipleChoices {
			t.Fatalf("%s %s: %d %s %v", method, path, out.StatusCode, raw, err)
		}
		return string(raw)
	}
	ask(http.MethodPost, "/v1/accounts/demo/key-buckets", `{"name":"hello-consumers"}`) // which the project names
	issued := ask(http.MethodPost, "/v1/deployments/sources", `{"accountName":"demo","projectName":"hello","branchName":"main"}`)
	upload, err := url.Parse(field(issued, "uploadUrl"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+gateway+upload.RequestURI(), bytes.NewReader(project(t)))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = upload.Host // which no DNS has
	out, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = out.Body.Close()
	for state, end := "IN_PROGRESS", time.Now().Add(time.Minute); state != "SUCCESS"; {
		if time.Now().After(end) {
			t.Fatal("the build does not end")
		}
		answer := ask(http.MethodGet, "/v1/accounts/demo/projects/hello/deployment-status/"+field(issued, "deploymentId"), "")
		if state = field(answer, "status"); state != "SUCCESS" && state != "IN_PROGRESS" {
			t.Fatalf("the build fails: %s", answer)
		}
		time.Sleep(20 * time.Millisecond)
	}
	p.End(t)
}

// project packs examples/hello as an upload has to be.
func project(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	if err := errors.Join(w.AddFS(os.DirFS("../../examples/hello")), w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// field is a field of an answer, of text.
func field(answer, name string) string {
	_, rest, _ := strings.Cut(answer, `"`+name+`":"`)
	text, _, _ := strings.Cut(rest, `"`)
	return strings.ReplaceAll(text, `\u0026`, "&")
}

// until waits for one of the answers.
func until(t *testing.T, p *containertest.Process, address string, statuses ...int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{}} // no proxy
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := client.Do(r); err == nil {
			_ = out.Body.Close()
			for _, s := range statuses {
				if out.StatusCode == s {
					return
				}
			}
			t.Fatalf("%s answers %s", address, out.Status)
		}
		select {
		case <-p.Gone:
			t.Fatalf("it ended: %v: %s", p.State, p.Output())
		case <-ctx.Done():
			t.Fatalf("%s does not answer", address)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
