package policy

import (
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
)

// Bounds of the parameters of hashes. One verification takes less than about a second and 64 MiB.
const (
	minBcryptCost, maxBcryptCost = 5, 14
	// bcrypt ignores all bytes of a password after this number.
	maxBcryptPassword = 72
	// The memory of argon2 is in KiB. The minimum is the smallest that OWASP recommends.
	minArgonMemory, maxArgonMemory   = 7168, 64 << 10
	maxArgonTime, maxArgonThreads    = 10, 4
	minArgonSaltBytes, minArgonBytes = 8, 16
	maxArgonSaltBytes, maxArgonBytes = 64, 64
)

// howToHash says how to make a hash. It does not repeat the value, which can be a password.
const howToHash = "Write a hash of the password by bcrypt or argon2id, not the password: `htpasswd -nB -C 12 NAME` " +
	"asks for the password and prints NAME:HASH. `htpasswd -nbB -C 12 NAME PASSWORD` does not ask, but leaves the " +
	"password in the history of the shell."

// passwordHash is a hash in the form of bcrypt, or of argon2id with its parameters.
type passwordHash struct {
	text  string // as the project has it
	argon *argonHash
}

type argonHash struct {
	memory, time uint32
	threads      uint8
	salt, hash   []byte
}

// parsePasswordHash parses a hash. fault says what to correct, "" for a valid hash.
func parsePasswordHash(text string) (h passwordHash, fault string) {
	switch {
	case strings.HasPrefix(text, "$argon2id$"):
		argon, fault := parseArgon(text)
		return passwordHash{text, argon}, fault
	case strings.HasPrefix(text, "$argon2"):
		return h, "Use argon2id: hashes by argon2i and argon2d are not supported."
	case len(text) >= 4 && strings.HasPrefix(text, "$2") && strings.IndexByte("abxy", text[2]) >= 0 && text[3] == '$':
		return parseBcrypt(text)
	}
	return h, howToHash
}

// bcryptBytes is the length of each hash by bcrypt, and bcryptPrefixBytes the length of its beginning, such as $2y$12$.
const (
	bcryptBytes       = 60
	bcryptPrefixBytes = 7
)

func parseBcrypt(text string) (h passwordHash, fault string) {
	cost, err := bcrypt.Cost([]byte(text))
	isEncoded := strings.Trim(text[min(bcryptPrefixBytes, len(text)):],
		"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") == ""
	switch {
	case err != nil || !isEncoded || len(text) != bcryptBytes:
		return h, "Write the whole hash: a hash by bcrypt has 60 characters, such as $2y$12$ and 53 more."
	case text[2] == 'x':
		return h, "Hash the password again: hashes that begin with $2x$ come from a program with an error."
	case cost < minBcryptCost || cost > maxBcryptCost:
		return h, fmt.Sprintf("Use a hash with a cost from %d to %d: this one has %d.", minBcryptCost, maxBcryptCost, cost)
	}
	return passwordHash{text: text}, ""
}

// parseArgon parses a PHC string: $argon2id$v=19$m=65536,t=3,p=4$SALT$HASH.
func parseArgon(text string) (h *argonHash, fault string) {
	const form = "Write the hash as $argon2id$v=19$m=65536,t=3,p=4$SALT$HASH, with salt and hash in Base64."
	parts := strings.Split(text, "$")
	if len(parts) != 6 || parts[2] != "v="+strconv.Itoa(argon2.Version) {
		return nil, form
	}
	values, ok := argonParameters(parts[3])
	salt, saltErr := base64.RawStdEncoding.Strict().DecodeString(parts[4])
	hash, hashErr := base64.RawStdEncoding.Strict().DecodeString(parts[5])
	if !ok || saltErr != nil || hashErr != nil {
		return nil, form
	}
	for _, bound := range []struct {
		name                    string
		value, minimum, maximum uint64
	}{
		{"m (memory in KiB)", values[0], minArgonMemory, maxArgonMemory},
		{"t (passes)", values[1], 1, maxArgonTime},
		{"p (threads)", values[2], 1, maxArgonThreads},
		{"salt in bytes", uint64(len(salt)), minArgonSaltBytes, maxArgonSaltBytes},
		{"hash in bytes", uint64(len(hash)), minArgonBytes, maxArgonBytes},
	} {
		if bound.value < bound.minimum || bound.value > bound.maximum {
			return nil, fmt.Sprintf("Hash the password with other parameters of argon2id: the value of %s has to be from %d to "+
				"%d, and is %d.", bound.name, bound.minimum, bound.maximum, bound.value)
		}
	}
	return &argonHash{
		memory: uint32(values[0]), time: uint32(values[1]), //nolint:gosec // G115: the bounds were checked
		threads: uint8(values[2]), salt: salt, hash: hash, //nolint:gosec // G115: the bound was checked
	}, ""
}

// argonParameters parses a text such as m=65536,t=3,p=4.
func argonParameters(text string) (values [3]uint64, ok bool) {
	parts := strings.Split(text, ",")
	if len(parts) != len(values) {
		return values, false
	}
	for i, name := range []string{"m=", "t=", "p="} {
		number, found := strings.CutPrefix(parts[i], name)
		value, err := strconv.ParseUint(number, 10, 32)
		if !found || err != nil || value > math.MaxUint32 {
			return values, false
		}
		values[i] = value
	}
	return values, true
}

// matches reports whether a password has this hash. It takes as long for a wrong password as for the right one.
func (h passwordHash) matches(password string) bool {
	if h.argon == nil {
		// bcrypt would ignore the rest of a longer password.
		return bcrypt.CompareHashAndPassword([]byte(h.text), []byte(password)) == nil && len(password) <= maxBcryptPassword
	}
	a := h.argon
	size := uint32(len(a.hash)) //nolint:gosec // G115: the hash has at most maxArgonBytes
	computed := argon2.IDKey([]byte(password), a.salt, a.time, a.memory, a.threads, size)
	return subtle.ConstantTimeCompare(computed, a.hash) == 1
}
