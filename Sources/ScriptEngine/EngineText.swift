internal import Bytes
internal import CJavaScriptCore

/// A string of JavaScriptCore, released with this object.
final class EngineText {
    let reference: JSStringRef

    /// The text in `view`, with ill-formed UTF-8 repaired.
    init(_ view: ByteView) {
        let terminated = ByteWriter(capacity: view.count + 1)
        terminated.append(view)
        terminated.append(0)
        let bytes = terminated.view.start.assumingMemoryBound(to: CChar.self)
        // Nil or empty if the bytes are not UTF-8; shorter if they contain a zero.
        if let converted = JSStringCreateWithUTF8CString(bytes) {
            if view.isEmpty || JSStringGetLength(converted) > 0 {
                reference = converted
                return
            }
            JSStringRelease(converted)
        }
        reference = EngineText.create(view.text)
    }

    init(_ text: String) { reference = EngineText.create(text) }

    deinit { JSStringRelease(reference) }

    private static func create(_ text: String) -> JSStringRef {
        let units = Array(text.utf16)
        guard let created = JSStringCreateWithCharacters(units, units.count) else {
            preconditionFailure("JavaScriptCore creates a string of any length that fits memory")
        }
        return created
    }

    /// Appends a string's UTF-8 to `output`; a lone surrogate becomes three bytes that are not UTF-8.
    static func append(_ string: JSStringRef, to output: ByteWriter) {
        let start = output.count
        let room = JSStringGetMaximumUTF8CStringSize(string)
        let bytes = output.claim(room).assumingMemoryBound(to: CChar.self)
        let written = JSStringGetUTF8CString(string, bytes, room)
        // The count includes the terminating zero.
        output.truncate(to: start + max(written, 1) - 1)
    }
}
