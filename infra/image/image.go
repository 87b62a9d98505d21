// Package image creates the container image of a long-lived service from its static binary, and uploads it to a
// registry. It uses go-containerregistry, so that nobody needs Docker to describe or deploy an installation.
//
// An image is one layer with the binary, one additional file if the service needs it, and the folders to which the
// service writes. The same files make the same image, byte for byte. Package infra, which describes an installation,
// and command publish therefore compute the same digest independently.
//
// The package cannot build images that need a shell or packages. The certificates that a service trusts are in its
// binary.
//
// Read image.go for one image, layout.go for files with the images of all architectures, and sbom.go for the bill of
// materials.
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
	"path"
	"path/filepath"
	"slices"
	"strings"

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

// entrypoint is the path of a service's binary in its image.
const entrypoint = "/service"

// UserID is the id of the user, and of the group, of an image's process. They own only the folders of its volumes.
const UserID = 65532

// Contents is the content and the configuration of an image.
type Contents struct {
	// Binary is the path of a static binary for Linux on this machine.
	Binary string
	// Architecture is Go's name of the binary's architecture: arm64 or amd64.
	Architecture string
	// Path is the absolute path of the binary in the image. It is also the image's entrypoint.
	Path string
	// DataFile is the path of an additional file on this machine, or "". The image has it in the folder of the binary,
	// under the same name.
	DataFile string
	// Command has the default arguments of the binary.
	Command []string
	// Env is the environment, as NAME=value.
	Env []string
	// Volumes are the absolute paths of the writable folders. They belong to the image's user alone.
	Volumes []string
	// Ports are the ports on which the process listens, such as 443/tcp.
	Ports []string
	// Labels describe the origin of the image. Their names are those of the OCI
	// (https://specs.opencontainers.org/image-spec/annotations/).
	Labels map[string]string
}

// FromBinary returns the image of a service's static binary for Linux. architecture is Go's name,
// arm64 or amd64. The image has no labels, so that its digest depends only on the binary and the architecture.
func FromBinary(binary, architecture string) (v1.Image, error) {
	return New(Contents{Binary: binary, Architecture: architecture, Path: entrypoint})
}

// New creates an image for Linux with the contents c.
func New(c Contents) (v1.Image, error) {
	raw, err := os.ReadFile(c.Binary)
	if err != nil {
		return nil, fmt.Errorf("read the binary of an image: %w", err)
	}
	layer, err := newLayer(c, raw)
	if err != nil {
		return nil, err
	}
	config := v1.Config{
		Entrypoint: []string{c.Path}, Cmd: c.Command, Env: c.Env, Labels: c.Labels,
		User: fmt.Sprintf("%d:%d", UserID, UserID),
	}
	for _, v := range c.Volumes {
		config.Volumes = addToSet(config.Volumes, v)
	}
	for _, p := range c.Ports {
		config.ExposedPorts = addToSet(config.ExposedPorts, p)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.ConfigFile(base, &v1.ConfigFile{
		OS: "linux", Architecture: c.Architecture, RootFS: v1.RootFS{Type: "layers"}, Config: config,
	})
	if err == nil {
		img, err = mutate.AppendLayers(img, layer)
	}
	if err != nil {
		return nil, fmt.Errorf("make an image: %w", err)
	}
	return img, nil
}

func addToSet(set map[string]struct{}, name string) map[string]struct{} {
	if set == nil {
		set = map[string]struct{}{}
	}
	set[name] = struct{}{}
	return set
}

// newLayer returns the only layer of the image. It has no times and no names of owners, because they would depend on
// the machine.
func newLayer(c Contents, binary []byte) (v1.Layer, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	var folders []string // without duplicates, parents before children
	for _, folder := range append([]string{path.Dir(c.Path)}, c.Volumes...) {
		for n := range strings.Count(strings.Trim(folder, "/"), "/") + 1 {
			parent := strings.Join(strings.Split(strings.Trim(folder, "/"), "/")[:n+1], "/") + "/"
			if parent != "/" && !slices.Contains(folders, parent) {
				folders = append(folders, parent)
			}
		}
	}
	var err error
	for _, name := range folders {
		header := &tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o555, Format: tar.FormatPAX}
		// A new volume has the owner and the mode of the folder over which it is mounted.
		if slices.Contains(c.Volumes, "/"+strings.TrimSuffix(name, "/")) {
			header.Mode, header.Uid, header.Gid = 0o700, UserID, UserID
		}
		err = errors.Join(err, w.WriteHeader(header))
	}
	addFile := func(name string, mode int64, content []byte) {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: strings.TrimPrefix(name, "/"), Mode: mode,
			Size: int64(len(content)), Format: tar.FormatPAX,
		}
		err = errors.Join(err, w.WriteHeader(header), write(w, content))
	}
	addFile(c.Path, 0o555, binary)
	if c.DataFile != "" {
		data, readErr := os.ReadFile(c.DataFile)
		err = errors.Join(err, readErr)
		addFile(path.Join(path.Dir(c.Path), filepath.Base(c.DataFile)), 0o444, data)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("write a layer: %w", err)
	}
	// Without caching, each read of the layer would compress it again: for the digest, and for each writer.
	compressed, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layer.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("make a layer: %w", err)
	}
	return compressed, nil
}

func write(w io.Writer, b []byte) error {
	_, err := w.Write(b)
	return err
}

// Repository returns the name of the repository for images that `cdk bootstrap` creates in an account and a region. The
// installation's stack cannot create the repository, because the images must be uploaded before the stack is deployed.
func Repository(account, region string) string {
	return "cdk-hnb659fds-container-assets-" + account + "-" + region
}

// Upload uploads an image to a repository (host/name), under a tag that is the image's digest in hexadecimal. missing
// reports whether the image was missing and has therefore been uploaded. Upload does not upload an existing image
// again, because a registry with immutable tags would refuse it.
func Upload(
	ctx context.Context, i v1.Image, repository string, auth authn.Authenticator, roundTripper http.RoundTripper,
) (missing bool, err error) {
	digest, err := i.Digest()
	if err != nil {
		return false, fmt.Errorf("digest an image: %w", err)
	}
	tag, err := name.NewTag(repository + ":" + digest.Hex)
	if err != nil {
		return false, fmt.Errorf("name an image: %w", err)
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuth(auth), remote.WithTransport(roundTripper)}
	_, err = remote.Head(tag, options...)
	if err == nil {
		return false, nil
	}
	if transportErr, ok := errors.AsType[*transport.Error](err); !ok || transportErr.StatusCode != http.StatusNotFound {
		return false, fmt.Errorf("look for an image in %s: %w", repository, err)
	}
	if err := remote.Write(tag, i, options...); err != nil {
		return false, fmt.Errorf("upload an image to %s: %w", repository, err)
	}
	return true, nil
}
