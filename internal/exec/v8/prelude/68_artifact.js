// artifact(name, mime, bytes) gives the run a file that it leaves: an image, a table, a page.

(() => {
  // The native side and the runner check again. They know the length in bytes.
  const controlCharacter = /[\x00-\x1f\x7f]/;
  const mediaType = /^[ -.0-~]+\/[!-:<-~][ -~]*$/;
  const longestMediaType = 128;
  const byteKinds = toList(["typedArray", "dataView", "arrayBuffer"]);

  const { artifact } = {
    artifact(name, mime, bytes) {
      const fail = (Base, text) => hideFrames(new Base(`artifact: ${text}`), artifact);
      if (typeof name !== "string" || name === "") throw fail(NativeTypeError, "key must be a non-empty string");
      if (matches(controlCharacter, name)) throw fail(NativeTypeError, "key must not contain control characters");
      if (typeof mime !== "string" || mime.length > longestMediaType || !matches(mediaType, mime)) {
        const given = typeof mime === "string" ? `"${StringPrototypeSlice(mime, 0, longestMediaType)}"` : typeof mime;
        throw fail(NativeTypeError, `mime must look like "type/subtype" (e.g. "image/png"), got ${given}`);
      }
      if (typeof bytes !== "string" && !listIncludes(byteKinds, host.kindOf(bytes))) {
        throw fail(NativeTypeError, "bytes must be a Uint8Array, TypedArray, ArrayBuffer, or string");
      }
      const refusal = host.artifact(name, mime, bytes);
      if (refusal !== undefined) throw fail(NativeRangeError, refusal);
    },
  };
  defineHidden(global, "artifact", setMeta(artifact, "artifact", 3));
})();
