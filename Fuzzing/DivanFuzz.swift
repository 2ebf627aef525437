import Bytes
import Glibc

/// One program for all targets: `divan-fuzz TARGET [libFuzzer's own arguments]`.
///
/// libFuzzer calls the functions at the end. It has a `main` too; a build with tests makes
/// `divan_fuzz_main` the entry point instead, as of every program.
enum DivanFuzz {
    nonisolated(unsafe) static var target: (ByteView) -> Void = { _ in }

    static func choose(_ name: String) {
        switch name {
        case "frames": target = FrameTarget.run
        case "dispatcher": target = DispatcherTarget().run
        case "changes": target = ChangesTarget().run
        case "blocks": target = BlockTarget().run
        case "json": target = JSONTarget().run
        case "scram": target = SCRAMTarget().run
        case "peers": target = PeerTarget().run
        case "feed": target = FeedTarget.run
        case "access": target = AccessTarget.run
        case "attributes": target = AttributeTarget().run
        case "paths": target = PathTarget().run
        case "subdocument": target = SubDocumentTarget().run
        case "payloads": target = PayloadTarget.run
        case "pump": target = PumpTarget.run
        default: chooseGatewayTarget(name)
        }
    }

    private static func chooseGatewayTarget(_ name: String) {
        switch name {
        case "bodies": target = SyncBodyTarget.run
        case "histories": target = SyncHistoryTarget.run
        case "tokens": target = SyncTokenTarget.run
        case "chunks": target = SyncChunkTarget.run
        case "headers": target = SyncHeaderTarget.run
        case "configuration": target = SyncConfigurationTarget.run
        default:
            print(
                "usage: divan-fuzz frames|dispatcher|changes|blocks|json|scram|peers|payloads|"
                    + "access|feed|attributes|paths|subdocument|pump|bodies|histories|tokens|"
                    + "chunks|headers|configuration [libFuzzer's arguments]"
            )
            exit(64)
        }
    }
}

@_silgen_name("LLVMFuzzerRunDriver")
private func runFuzzer(
    _ count: UnsafeMutablePointer<CInt>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
    _ testOneInput: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

@_cdecl("divan_fuzz_main")
func fuzzMain(
    _ count: CInt,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>
) -> CInt {
    var (count, arguments) = (count, arguments)
    return runFuzzer(&count, &arguments) { testOneInput($0, $1) }
}

/// Removes the target's name from the arguments: the rest is libFuzzer's.
@_cdecl("LLVMFuzzerInitialize")
func initializeFuzzer(
    _ count: UnsafeMutablePointer<CInt>,
    _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>
) -> CInt {
    let list = arguments.pointee
    DivanFuzz.choose(count.pointee > 1 ? list[1].map { String(cString: $0) } ?? "" : "")
    for index in 1..<Int(count.pointee) { list[index] = list[index + 1] }
    count.pointee -= 1
    return 0
}

@_cdecl("LLVMFuzzerTestOneInput")
func testOneInput(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    guard let start else { return 0 }
    DivanFuzz.target(ByteView(start: UnsafeRawPointer(start), count: count))
    return 0
}
