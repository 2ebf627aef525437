internal import Bytes

/// The memory and the eight locks that the connections to one database share in WAL mode.
///
/// All connections are in one real process, so ordinary memory suffices. Its address is stable while
/// any connection may access it, including those of a dead simulated process.
final class SharedMemory {
    private var regions: [UnsafeMutableRawPointer] = []
    /// Per lock: the number of shared holders, or -1 if it is held exclusively.
    private var holders = [Int](repeating: 0, count: 8)
    var users = 0

    deinit {
        for region in regions { Memory.free(region) }
    }

    func region(_ index: Int, bytes: Int, extends: Bool) -> UnsafeMutableRawPointer? {
        guard index < regions.count || extends else { return nil }
        while regions.count <= index {
            let region = Memory.allocate(bytes)
            region.initializeMemory(as: UInt8.self, repeating: 0, count: bytes)
            regions.append(region)
        }
        return regions[index]
    }

    func mayShare(_ lock: Int) -> Bool { holders[lock] >= 0 }

    func isFree(_ lock: Int) -> Bool { holders[lock] == 0 }

    func acquireShared(_ lock: Int) { holders[lock] += 1 }

    func acquireExclusive(_ lock: Int) { holders[lock] = -1 }

    func release(_ lock: Int) {
        if holders[lock] > 0 { holders[lock] -= 1 } else { holders[lock] = 0 }
    }
}
