package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nameAnnotation is by what engines know an image of a layout
// (https://specs.opencontainers.org/image-spec/annotations/).
const nameAnnotation = "org.opencontainers.image.ref.name"

// Index puts the images of one program for several architectures under one digest: an engine
// takes the one for its machine. They stand in the order they are given in.
func Index(labels map[string]string, images ...v1.Image) (v1.ImageIndex, error) {
	of := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, i := range images {
		c, err := i.ConfigFile()
		if err != nil {
			return nil, fmt.Errorf("read an image's configuration: %w", err)
		}
		of = mutate.AppendManifests(of, mutate.IndexAddendum{
			Add: i, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: c.OS, Architecture: c.Architecture}},
		})
	}
	annotated, ok := mutate.Annotations(of, labels).(v1.ImageIndex)
	if !ok {
		return nil, errors.New("annotate an index: it is none any more")
	}
	return annotated, nil
}

// WriteLayout writes an index into a folder of its own as an OCI image layout
// (https://specs.opencontainers.org/image-spec/image-layout/) under a name, and that as a tar
// file beside it, folder.tar. What was there is replaced.
//
// The layout has this one image: of several, engines would ask which one is meant.
func WriteLayout(folder, name string, of v1.ImageIndex) error {
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("replace an image: %w", err)
	}
	at, err := layout.Write(folder, empty.Index)
	if err == nil {
		err = at.AppendIndex(of, layout.WithAnnotations(map[string]string{nameAnnotation: name}))
	}
	if err != nil {
		return fmt.Errorf("write an image into %s: %w", folder, err)
	}
	out, err := os.Create(folder + ".tar") //nolint:gosec // G304: the caller's folder
	if err != nil {
		return fmt.Errorf("write an image's tar file: %w", err)
	}
	if err := errors.Join(archive(out, folder), out.Close()); err != nil {
		return fmt.Errorf("write %s.tar: %w", folder, err)
	}
	return nil
}

// archive writes the files of a folder in the order of their names, with nothing of this
// machine: neither times nor owners nor the modes of its umask.
func archive(out io.Writer, folder string) error {
	w := tar.NewWriter(out)
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, Format: tar.FormatPAX})
		}
		raw, err := os.ReadFile(path) //nolint:gosec // G122,G304: files that we have just written
		if err != nil {
			return err
		}
		return errors.Join(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(raw)), Format: tar.FormatPAX}), write(w, raw))
	})
	return errors.Join(err, w.Close())
}
