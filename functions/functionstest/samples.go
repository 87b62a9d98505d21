package functionstest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/url"
	"path"

	"github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/durable"
)

// Client makes the requests of samples with a caller's key.
func (w *World) Client(key string) events.Client { return client{w, key} }

type client struct {
	w   *World
	key string
}

// Ask implements events.Client.
func (c client) Ask(method, target, body string) (status int, answer []byte, err error) {
	a := c.w.Call(c.key, method, target, body)
	return a.Status, []byte(a.Body), nil
}

// Upload implements events.Client: it does what the builder does when S3 tells it
// of an object. The build waits until every gateway has heard of it, so that
// this belongs into a synctest bubble.
func (c client) Upload(_ events.Names, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("read the upload's address: %w", err)
	}
	engine, err := durable.Engine(c.w.Parts)
	if err != nil {
		return err
	}
	archive, err := Archive()
	if err != nil {
		return err
	}
	id := path.Base(u.Path)
	object := c.w.Objects.Upload(blob.UploadKey(id), archive)
	ctx := c.w.Context()
	operation, err := deployments.Open(c.w.Parts).Claim(ctx, deployments.Arrival{StatusID: id, ETag: object.ETag, On: c.w.Now})
	if err != nil {
		return fmt.Errorf("claim the upload %s: %w", id, err)
	}
	record, err := engine.Run(ctx, operation)
	if err != nil || !record.Ended() {
		return fmt.Errorf("build the upload %s: %v, %w", id, record.State, err)
	}
	return c.w.Objects.Delete(ctx, blob.UploadKey(id))
}

// Archive packs a small project with one route.
func Archive() ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	a := tar.NewWriter(z)
	for _, f := range []struct{ name, text string }{
		{"config/policies.json", `{"policies":[],"corsPolicies":[]}`},
		{"config/routes.oas.json", `{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{"/a":{"get":{"operationId":"a",
			"responses":{"200":{"description":"ok"}},"x-gateway-route":{"corsPolicy":"none","handler":{"export":"urlForwardHandler",
			"module":"$import(@gatewright/runtime)","options":{"baseUrl":"http://upstream.test"}},"policies":{"inbound":[]}}}}}}`},
	} {
		if err := a.WriteHeader(&tar.Header{Name: f.name, Typeflag: tar.TypeReg, Size: int64(len(f.text)), Mode: 0o644}); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
		if _, err := io.WriteString(a, f.text); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
	}
	if err := a.Close(); err != nil {
		return nil, fmt.Errorf("pack a project: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("compress a project: %w", err)
	}
	return out.Bytes(), nil
}
