// The URL of a Request, or of a redirect.

const { TypeError } = platform;
const { URL } = platform.load("url");
const hrefOf = platform.getter("URL.prototype", "href");
const usernameOf = platform.getter("URL.prototype", "username");
const passwordOf = platform.getter("URL.prototype", "password");

// parse returns {href, hasCredentials} of an absolute URL. A script has no base URL.
const parse = (text) => {
  let url;
  try {
    url = new URL(text);
  } catch (cause) {
    throw new TypeError(`Failed to parse URL from ${text}`, { __proto__: null, cause });
  }
  return { __proto__: null, href: hrefOf(url), hasCredentials: usernameOf(url) !== "" || passwordOf(url) !== "" };
};

return { parse };
