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

	"github.com/gatewright/gatewright/packaging/containertest"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/testing/freeport"
)

// containerCommand returns the command that runs an image of a layout, with additional environment variables.
func containerCommand(t *testing.T, layoutFolder string, env ...string) *exec.Cmd {
	t.Helper()
	return containertest.Command(t, containertest.ImageSpec(t, layoutFolder, env))
}

// productImages returns the folder with the images of the product and of the services.
func productImages(t *testing.T) (folder string) {
	t.Helper()
	folder, err := product()
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestImagesContainRootCertificates checks that the bill of materials of each program lists the module with root
// certificates. A container has no system certificates, so the product would otherwise trust no authority, upstream or
// AWS endpoint.
func TestImagesContainRootCertificates(t *testing.T) {
	folder := productImages(t)
	for _, p := range programs(repository, "serve") {
		bill, err := os.ReadFile(filepath.Join(folder, p.name+"-"+runtime.GOARCH+".cdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(bill), `"pkg:golang/golang.org/x/crypto/x509roots/fallback@`) {
			t.Errorf("bill of %s has no x509roots/fallback, want it", p.name)
		}
	}
}

// TestImagesRun checks that the images of the product and of the relay run with only their own contents.
func TestImagesRun(t *testing.T) {
	folder := productImages(t)
	t.Run("the product's help", func(t *testing.T) {
		p := containertest.Start(t, containertest.Command(t, containertest.ImageSpec(t, filepath.Join(folder, "gatewright"),
			nil, "--help")))
		<-p.Done
		if p.Err != nil || !strings.Contains(p.Output(), "Usage:") {
			t.Errorf("gatewright-server --help = %v: %s, want success with Usage:", p.Err, p.Output())
		}
	})
	t.Run("the relay's health", func(t *testing.T) {
		address := freeport.Address(t).String()
		cmd := containerCommand(t, filepath.Join(folder, "gatewright-relay"),
			// With the endpoint of an emulator, the port of the image has no TLS. No emulator runs here, because the
			// health check does not need one.
			"AWS_ENDPOINT_URL=http://127.0.0.1:1", "AWS_REGION=eu-west-1", "AWS_ACCESS_KEY_ID=test",
			"AWS_SECRET_ACCESS_KEY=test",
			config.VarTable+"=table", config.VarBucket+"=bucket", config.VarKMSKey+"=key", config.VarRelayAddr+"="+address,
			config.VarDeploymentURL+"=https://{deployment}.apis.example.com", config.VarRelay+"=https://relay.example.com",
		)
		p := containertest.Start(t, cmd)
		waitForStatus(t, p, "http://"+address+"/health", http.StatusOK)
		p.CheckConfined(t)
		p.Stop(t)
	})
}

// TestProductWritesOnlyToItsVolume checks that the product can write only to its volume, stores the key of the account
// there, and builds a project.
func TestProductWritesOnlyToItsVolume(t *testing.T) {
	folder := productImages(t)
	api, gateway := freeport.Address(t).String(), freeport.Address(t).String()
	cmd := containerCommand(t, filepath.Join(folder, "gatewright"),
		// Run the product as behind a proxy that terminates TLS. Allow private upstreams, because the sample's upstream
		// has a private address.
		config.VarDomain+"=gatewright.test", config.VarAPIAddr+"="+api, config.VarGatewayAddr+"="+gateway,
		config.VarTLSAddr+"=none",
		config.VarPrivateUpstreams+"=true",
	)
	p := containertest.Start(t, cmd)
	waitForStatus(t, p, "http://"+api+"/health", http.StatusOK, http.StatusNotFound, http.StatusUnauthorized)
	p.CheckConfined(t)
	key := p.ReadFile(t, dataDir+"/account-key")
	send := func(method, path, body string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+api+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		raw, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode >= http.StatusMultipleChoices {
			t.Fatalf("%s %s = %d %s, %v, want a status below 300", method, path, resp.StatusCode, raw, err)
		}
		return string(raw)
	}
	send(http.MethodPost, "/v1/accounts/demo/key-buckets", `{"name":"hello-consumers"}`) // the project names this bucket
	uploadResp := send(http.MethodPost, "/v1/deployments/sources",
		`{"accountName":"demo","projectName":"hello","branchName":"main"}`)
	upload, err := url.Parse(jsonField(uploadResp, "uploadUrl"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+gateway+upload.RequestURI(),
		bytes.NewReader(packExample(t)))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = upload.Host // the host name is not in the DNS
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	for state, deadline := "IN_PROGRESS", time.Now().Add(time.Minute); state != "SUCCESS"; {
		if time.Now().After(deadline) {
			t.Fatalf("status of the build after a minute = %s, want SUCCESS", state)
		}
		statusResp := send(http.MethodGet, "/v1/accounts/demo/projects/hello/deployment-status/"+
			jsonField(uploadResp, "deploymentId"), "")
		if state = jsonField(statusResp, "status"); state != "SUCCESS" && state != "IN_PROGRESS" {
			t.Fatalf("status of the build = %s, want SUCCESS", statusResp)
		}
		time.Sleep(20 * time.Millisecond)
	}
	p.Stop(t)
}

// packExample packs examples/hello for an upload.
func packExample(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	if err := errors.Join(w.AddFS(os.DirFS("../../examples/hello")), w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// jsonField returns a text field of a JSON response.
func jsonField(response, name string) string {
	_, tail, _ := strings.Cut(response, `"`+name+`":"`)
	text, _, _ := strings.Cut(tail, `"`)
	return strings.ReplaceAll(text, `\u0026`, "&")
}

// waitForStatus waits until the process responds. It fails the test if the response has none of the statuses.
func waitForStatus(t *testing.T, p *containertest.Process, address string, statuses ...int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{}} // no proxy
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := client.Do(r); err == nil {
			_ = resp.Body.Close()
			for _, s := range statuses {
				if resp.StatusCode == s {
					return
				}
			}
			t.Fatalf("GET %s = %s, want one of %v", address, resp.Status, statuses)
		}
		select {
		case <-p.Done:
			t.Fatalf("process ended with %v, want it to respond with one of %v: %s", p.Err, statuses, p.Output())
		case <-ctx.Done():
			t.Fatalf("GET %s = no response before the deadline, want one of %v", address, statuses)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
