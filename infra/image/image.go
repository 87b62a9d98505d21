// Package image makes the container image of a long-lived service of its static
// binary, and uploads it to a registry, both through go-containerregistry: no
// Docker is needed, neither to describe an installation nor to deploy one.
//
// An image is one layer with one file. The same binary makes the same image,
// byte for byte, so that the description of an installation (package infra) names
// by its digest what Command publish uploads, and neither asks the other.
//
// What it is not: a way to build anything that needs a shell, a package or a file
// beside its binary. What a service trusts, its binary has in it.
//
// There is only this file.
package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// entrypoint is the binary's path in an image.
const entrypoint = "/service"

// nobody is the user and group that a service runs as: no file is theirs.
const nobody = "65532:65532"

// Of makes the image of a static binary for Linux. architecture is Go's name of
// it, arm64 or amd64.
func Of(binary, architecture string) (v1.Image, error) {
	raw, err := os.ReadFile(binary) //nolint:gosec // G304: what make build has built
	if err != nil {
		return nil, fmt.Errorf("read a service's binary: %w", err)
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	// No time and no owner's name: they would be the building machine's.
	header := &tar.Header{Typeflag: tar.TypeReg, Name: entrypoint[1:], Mode: 0o555, Size: int64(len(raw)), Format: tar.FormatPAX}
	if err := errors.Join(w.WriteHeader(header), write(w, raw), w.Close()); err != nil {
		return nil, fmt.Errorf("write a layer: %w", err)
	}
	of, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layer.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("make a layer: %w", err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	made, err := mutate.ConfigFile(base, &v1.ConfigFile{
		OS: "linux", Architecture: architecture, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{Entrypoint: []string{entrypoint}, User: nobody},
	})
	if err == nil {
		made, err = mutate.AppendLayers(made, of)
	}
	if err != nil {
		return nil, fmt.Errorf("make an image: %w", err)
	}
	return made, nil
}

func write(w io.Writer, b []byte) error {
	_, err := w.Write(b)
	return err
}

// Repository is the name of the repository that images are uploaded to, of an account
// and a region: the one that `cdk bootstrap` makes for them. A repository of the stack's
// own would have to be there before the stack is.
func Repository(account, region string) string {
	return "cdk-hnb659fds-container-assets-" + account + "-" + region
}

// Upload puts an image into a repository, host/name, under a tag that is its
// digest in hexadecimal, and reports whether it was missing: a registry whose tags
// never change refuses one that is there already.
func Upload(ctx context.Context, i v1.Image, repository string, as authn.Authenticator, by http.RoundTripper) (missing bool, err error) {
	digest, err := i.Digest()
	if err != nil {
		return false, fmt.Errorf("digest an image: %w", err)
	}
	tag, err := name.NewTag(repository + ":" + digest.Hex)
	if err != nil {
		return false, fmt.Errorf("name an image: %w", err)
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuth(as), remote.WithTransport(by)}
	_, err = remote.Head(tag, options...)
	if err == nil {
		return false, nil
	}
	if refused, ok := errors.AsType[*transport.Error](err); !ok || refused.StatusCode != http.StatusNotFound {
		return false, fmt.Errorf("look for an image in %s: %w", repository, err)
	}
	if err := remote.Write(tag, i, options...); err != nil {
		return false, fmt.Errorf("upload an image to %s: %w", repository, err)
	}
	return true, nil
}
