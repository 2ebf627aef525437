import Bytes
import TestWorld
import Vocabulary

/// Values with extended attributes as clients and other clusters send them.
///
/// - Invalid forms are refused without a crash.
/// - A valid form is its pairs, each within its bounds and distinct, then the body: written again it
///   has the same bytes.
/// - Its system attributes alone, which a tombstone keeps, are a valid form too.
final class AttributeTarget {
    private let output = ByteWriter()

    func run(_ view: ByteView) {
        guard let blob = XattrBlob(view) else { return }
        require(
            blob.byteCount + blob.body.count == view.count,
            "the attributes and the body are not the whole value"
        )
        var keys: Set<[UInt8]> = []
        for (key, value) in blob {
            require(
                (1...Limits.xattrKeyBytesMax).contains(key.count),
                "an attribute's key of \(key.count) bytes"
            )
            require(keys.insert(key.bytes).inserted, "two attributes have the same key")
            require(
                blob.value(of: key)?.equals(value) == true,
                "the value of a key is another one than that of its pair"
            )
        }
        require(keys.isEmpty == blob.isEmpty, "an empty list of attributes has a pair")
        checkWriting(blob, view)
        checkSystemPairs(blob)
    }

    private func checkWriting(_ blob: XattrBlob, _ view: ByteView) {
        guard !blob.isEmpty else { return }
        output.removeAll()
        let pairs = XattrWriter.begin(output)
        for (key, value) in blob { pairs.append(key: key, value: value) }
        require(pairs.end(), "pairs were written, and none counted")
        output.append(blob.body)
        require(output.view.equals(view), "the written form differs from the read one")
    }

    private func checkSystemPairs(_ blob: XattrBlob) {
        output.removeAll()
        guard XattrWriter.appendSystemPairs(of: blob, to: output) else {
            require(!blob.hasSystemKeys && output.count == 0, "system attributes were lost")
            return
        }
        guard let kept = XattrBlob(output.view) else {
            fatalError("the kept attributes are invalid")
        }
        require(kept.body.isEmpty, "a tombstone has a body")
        require(kept.systemBytes == blob.systemBytes, "other system attributes were kept")
        for (key, value) in kept {
            require(XattrBlob.isSystemKey(key), "an attribute of the user was kept")
            require(blob.value(of: key)?.equals(value) == true, "a kept value changed")
        }
    }
}
