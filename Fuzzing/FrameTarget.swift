import Bytes
import TestWorld
import Vocabulary
import Wire

/// Frame decoder, framing extras, HELLO's list and error maps: they decode or reject any bytes.
enum FrameTarget {
    static func run(_ view: ByteView) {
        let small = FrameDecoder(frameBytesMax: 512, valueBytesMax: 128)
        for decoder in [FrameDecoder(), FrameDecoder(frameBytesMax: 64 << 10), small] {
            walk(view, decoder)
        }
        checkFraming(view)
        checkFeatures(view)
        if view.count >= 2 {
            let asked = view.bigEndian(at: 0, as: UInt16.self)
            require(
                (ErrorMap.json(versionAsked: asked) == nil) == (asked == 0),
                "error maps begin at version 1"
            )
        }
    }

    private static func walk(_ view: ByteView, _ decoder: FrameDecoder) {
        var rest = view
        while true {
            switch decoder.next(in: rest) {
            case .frame(let frame):
                let parts = [frame.framing, frame.extras, frame.key, frame.value]
                let sum = parts.reduce(FrameHeader.byteCount) { $0 + $1.count }
                require(
                    sum == frame.byteCount && frame.byteCount <= rest.count,
                    "a frame and its parts lie in the view"
                )
                for part in parts where !part.isEmpty { _ = part[part.count - 1] &+ part[0] }
                if frame.header.framingCount > 0 { _ = FramingExtras.parse(frame.framing) }
                rest = rest.dropFirst(frame.byteCount)
            case .incomplete(let needed):
                require(needed > rest.count, "a complete frame is not reported as incomplete")
                return
            case .valueTooBig(let header):
                guard header.frameCount <= rest.count else { return }
                rest = rest.dropFirst(header.frameCount)
            case .invalid: return
            }
        }
    }

    private static func checkFraming(_ view: ByteView) {
        guard case .parsed(let extras) = FramingExtras.parse(view) else { return }
        let writer = ByteWriter()
        extras.append(to: writer)
        guard case .parsed(let again) = FramingExtras.parse(writer.view) else {
            fatalError("a decoded frame can be encoded")
        }
        require(
            again.isBarrier == extras.isBarrier && again.durability == extras.durability
                && again.streamID == extras.streamID
                && again.preservesExpiry == extras.preservesExpiry
                && again.impersonated?.bytes == extras.impersonated?.bytes,
            "the encoded frame equals the decoded one"
        )
    }

    private static func checkFeatures(_ view: ByteView) {
        guard let requested = FeatureSet(view) else {
            return require(view.count % 2 == 1, "features come in pairs of bytes")
        }
        let all = FeatureSet(Feature.allCases)
        guard let agreed = FeatureSet.agreed(requested: requested, offered: all) else { return }
        let writer = ByteWriter()
        agreed.append(to: writer)
        require(
            FeatureSet(writer.view) == agreed && agreed.bits & ~requested.bits == 0,
            "only requested features are granted"
        )
    }
}
