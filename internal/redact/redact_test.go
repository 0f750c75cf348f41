package redact_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"daybook/internal/redact"
)

func decode(t testing.TB, s string) map[string]any {
	t.Helper()
	var args map[string]any
	if err := json.Unmarshal([]byte(s), &args); err != nil {
		t.Fatal(err)
	}
	return args
}

// Values with names of secrets are removed at any depth, and long values are cut.
func TestHideAndExcerpt(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 250)
	for name, tt := range map[string]struct {
		more []string
		in   string
		want map[string]string
	}{
		"plain":        {in: `{"city":"Oslo","n":[1,{"a":2}]}`, want: map[string]string{"city": `"Oslo"`, "n": `[1,{"a":2}]`}},
		"a secret":     {in: `{"apiKey":"k1","max_tokens":5}`, want: map[string]string{"apiKey": `"[redacted]"`, "max_tokens": `5`}},
		"deep":         {in: `{"a":[{"b":{"db_password":{"x":"k1"}}}]}`, want: map[string]string{"a": `[{"b":{"db_password":"[redacted]"}}]`}},
		"another name": {more: []string{"Pin"}, in: `{"pinCode":"k1"}`, want: map[string]string{"pinCode": `"[redacted]"`}},
		"long":         {in: `{"text":"` + long + `"}`, want: map[string]string{"text": `"` + strings.Repeat("ä", 199) + `…"`}},
		"large":        {in: `{"list":["` + strings.Repeat(`x","`, 400) + `"]}`, want: map[string]string{"list": `"… (1604 bytes)"`}},
		"null":         {in: `null`, want: map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := map[string]string{}
			for k, v := range redact.Excerpt(redact.Names{More: tt.more}.Hide(decode(t, tt.in))) {
				got[k] = string(v)
			}
			if !maps.Equal(got, tt.want) {
				t.Errorf("%s gives %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestIsSecret(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"password", "Password", "PASSWORD", "passwords", "DBPassword", "dbPassword", "db_password", "DB_PASSWORD", "db-password", "db.password", "password2", "db2Password", "PGPASSWORD", "newPasswords",
		"passwd", "pwd", "userPwd", "dbpwd", "MYSQLPWD", "passphrase", "passphrases", "passcode", "DB_PASS", "dbPass", "SMTPPass", "MYSQL_PASS",
		"secret", "secrets", "AWSSecret", "AWSSecrets", "aws_secret", "clientSecret", "clientsecret", "CLIENT_SECRETS", "secretValue",
		"token", "tokens", "authTokens", "accessToken", "access_token", "accesstoken", "OAuth2Token", "oauth2_tokens", "GITHUB_TOKEN", "x-auth-token", "tokenV2", "IDToken", "idTokens", "input_token", "_authToken",
		"USAGE_REPORT_TOKEN", "cost_center_token", "per_user_access_token", "totalAccessToken",
		"apiKey", "apiKeys", "APIKey", "APIKeys", "APIKEY", "API_KEYS", "api-key", "x-api-key", "myapikey", "OpenAIAPIKey", "apikey2",
		"secretaccesskey", "AWSSECRETACCESSKEY", "sshprivatekeys", "appsecretkey", "privateKey", "private_keys", "accessKey", "AWSAccessKeyId", "aws_access_key_id", "secretKey", "signingKeys", "authKey", "SSHKey", "ssh_key", "encryptionKey", "AccountKey", "sharedAccessKey",
		"credential", "credentials", "AWSCredentials", "creds", "cookie", "cookies", "Set-Cookie", "authorization", "Authorization", "proxyAuthorization", "bearer", "BearerToken", "jwt", "JWTs", "basicAuth", "dsn", "connectionString", "connection_strings",
	} {
		if !(redact.Names{}).IsSecret(name) {
			t.Errorf("%q is not taken for the name of a secret; its words are %q", name, redact.Words(name))
		}
	}
	for _, name := range []string{
		"", "city", "tokenizer", "Tokenizer", "tokenize", "tokenized", "tokenization", "passwordless", "secretary", "secretaries", "secretariat", "secretion", "keyboard", "keyboards", "accessKeyboard", "apiKeyboard",
		"key", "keys", "keyword", "monkey", "publicKey", "primaryKey", "session_key", "context_key", "sortKeys", "passport", "pass", "bypass", "passes", "compass", "cookiecutter",
		"author", "auth", "authority", "authors", "authType", "maxTokens", "max_tokens", "MAX_TOKENS", "maxOutputTokens", "numTokens", "n_tokens", "prompt_tokens", "completionTokens", "totalTokens", "tokenCount", "token_limit", "tokensUsed", "token_type", "tokens_per_second",
		"accredited", "credit", "incredible", "sacred", "api", "access", "private", "string", "connection", "dbKeyboard",
	} {
		if (redact.Names{}).IsSecret(name) {
			t.Errorf("%q is taken for the name of a secret; its words are %q", name, redact.Words(name))
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"DBPassword": {"db", "password"}, "AWSSecrets": {"aws", "secrets"}, "APIKeys": {"api", "keys"}, "APIs": {"apis"}, "JWTsOf": {"jwts", "of"},
		"OAuth2Token": {"o", "auth", "token"}, "snake_case-and.kebab": {"snake", "case", "and", "kebab"}, "PASSWORD": {"password"}, "Åre": {"åre"}, "__": nil, "A": {"a"}, "aB": {"a", "b"}, "ABc": {"a", "bc"},
	} {
		if got := redact.Words(name); !slices.Equal(got, want) {
			t.Errorf("%s has the words %q, want %q", name, got, want)
		}
	}
}

// For any arguments, the result is JSON within the limits, without values under names
// of secrets.
func FuzzExcerpt(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":{"token":"s3cret"}}`, `{"Authorization":["s3cret"]}`, `{"x":"` + strings.Repeat("y", 2000) + `"}`, `{"":null}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var args map[string]any
		if json.Unmarshal([]byte(s), &args) != nil {
			return
		}
		names := redact.Names{}
		secrets := map[string]bool{}
		for name := range args {
			secrets[name] = names.IsSecret(name)
		}
		kept := redact.Excerpt(names.Hide(args))
		size := 0
		for _, name := range slices.Sorted(maps.Keys(kept)) {
			v := kept[name]
			size += len(name) + len(v)
			if !json.Valid(v) || !utf8.Valid(v) {
				t.Errorf("%q is no JSON", v)
			}
			if secrets[name] && string(v) != `"[redacted]"` && !strings.HasPrefix(string(v), `"… (`) {
				t.Errorf("%q is kept as %s", name, v)
			}
		}
		if size > redact.MaxBytes {
			t.Errorf("%d bytes are kept", size)
		}
	})
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://example.com/daybook":          "https://example.com/daybook",
		"ftp://user:secret@host/a?b=c#d":       "ftp://host/a",
		"http://user:se@cret@h ost/":           "http://h ost/",
		"nats://TOKEN@h:4222":                  "nats://h:4222",
		"user:secret@host":                     "host",
		"https://host/p?email=a@b.com&token=s": "https://…",
		"nats://user:p/w@host":                 "nats://…",
		"nats://user:p?w@host":                 "nats://…",
		"http:/user:secret@host":               "…",
		"book.example.com":                     "book.example.com",
		"http://127.0.0.1:1/?token=secret":     "http://127.0.0.1:1/",
	} {
		if got := redact.Address(text); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
}
