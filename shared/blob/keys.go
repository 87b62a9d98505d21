package blob

import "strings"

// Below are all key templates. Digests are SHA-256 in lower-case hexadecimal.

const uploads = "uploads/"

// UploadKey is where the client of a presigned URL puts the archive of the
// build that has this statusId. The id is the last segment of the URL's path.
func UploadKey(statusID string) string { return uploads + statusID }

// UploadID returns the statusId of an upload's key, and whether it is one: for
// who is told about a new object.
func UploadID(key string) (statusID string, ok bool) {
	id, ok := strings.CutPrefix(key, uploads)
	return id, ok && id != "" && !strings.Contains(id, "/")
}

// SourceKey is an archive that was accepted, kept for redeploys. Callers write
// DEPLOYMENT/DIGEST-BUILD, and DEPLOYMENT/DIGEST for artifacts, which hold their
// build's id: emptying a deployment is listing a prefix, at the price of storing
// twice what two deployments have.
func SourceKey(digest string) string { return "sources/" + digest }

// ArtifactKey is a compiled project as the gateway loads it.
func ArtifactKey(digest string) string { return "artifacts/" + digest }

// TruststoreKey is the CAs of an account's clients, as API Gateway reads them.
// Callers write ACCOUNT/DIGEST.
func TruststoreKey(name string) string { return "truststores/" + name }
