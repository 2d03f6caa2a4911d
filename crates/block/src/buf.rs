//! Buffers: owned, page-aligned memory that a transfer can own while the kernel works on it.
//!
//! A [`Buf`] can be split into disjoint parts, which go to several devices at once, and joined again without a copy.
//! Why `unsafe`: parts of one allocation are handed out as separate `&mut [u8]`. The invariant, kept by `split_at`,
//! `narrow` and `join`: the ranges of all `Buf`s over one allocation are disjoint.

#![allow(unsafe_code)]

use std::alloc::{self, Layout};
use std::cell::RefCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::rc::Rc;

/// The unit of validity in the cache and the alignment of all buffers.
pub const PAGE_BYTES: usize = 4096;

/// The classes of allocations a pool keeps for reuse: 4 KiB << class.
const CLASSES: usize = 11;

/// Bytes that the free lists of a pool keep at most; what is over goes back to the allocator.
const POOL_KEEPS_BYTES: usize = 64 << 20;

/// An owned, page-aligned, initialised byte buffer.
pub struct Buf {
    memory: Rc<Memory>,
    start: usize,
    len: usize,
}

/// One allocation. Freed, or given back to its pool, when the last `Buf` over it goes.
struct Memory {
    base: NonNull<u8>,
    capacity: usize,
    /// The index with which the memory is registered with the ring, if it is.
    registered: Option<u16>,
    pool: Option<Rc<RefCell<FreeLists>>>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.borrow_mut().give_back(self.base, self.capacity, self.registered);
        } else {
            release(self.base, self.capacity);
        }
    }
}

impl Buf {
    /// A buffer of zeroes that belongs to no pool.
    pub fn zeroed(len: usize) -> Self {
        let capacity = len.max(1).next_multiple_of(PAGE_BYTES);
        let memory = Memory { base: allocate(capacity), capacity, registered: None, pool: None };
        Self { memory: Rc::new(memory), start: 0, len }
    }

    /// The part `start .. start + len` of this buffer; the rest is given up.
    ///
    /// # Panics
    /// If the part is not inside the buffer.
    pub fn narrow(mut self, start: usize, len: usize) -> Self {
        assert!(start.checked_add(len).is_some_and(|end| end <= self.len), "narrow outside the buffer");
        self.start += start;
        self.len = len;
        self
    }

    /// Two buffers: the first `at` bytes and the others.
    ///
    /// # Panics
    /// If `at` is past the end.
    pub fn split_at(mut self, at: usize) -> (Self, Self) {
        assert!(at <= self.len, "split outside the buffer");
        let tail = Self { memory: Rc::clone(&self.memory), start: self.start + at, len: self.len - at };
        self.len = at;
        (self, tail)
    }

    /// Undoes `split_at`.
    ///
    /// # Panics
    /// If `next` is not the part that follows this one in the same memory.
    pub fn join(mut self, next: Self) -> Self {
        assert!(
            Rc::ptr_eq(&self.memory, &next.memory) && self.start + self.len == next.start,
            "joined buffers must be neighbours"
        );
        self.len += next.len;
        self
    }

    /// The index with which the ring knows this memory, for fixed-buffer transfers.
    pub fn registered(&self) -> Option<u16> {
        self.memory.registered
    }
}

impl Deref for Buf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start + len` is inside the allocation (kept by the constructors above), the bytes are initialised
        // (`allocate` zeroes, pools never uninitialise), and no other `Buf` covers them (the file's invariant).
        unsafe { std::slice::from_raw_parts(self.memory.base.as_ptr().wrapping_add(self.start), self.len) }
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes this the only access to a range that no other `Buf` covers.
        unsafe { std::slice::from_raw_parts_mut(self.memory.base.as_ptr().wrapping_add(self.start), self.len) }
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} bytes)", self.len)
    }
}

/// Reuses buffers. A handle: cloning it is cheap. What a taken buffer contains is unspecified (but initialised).
#[derive(Clone)]
pub struct BufPool {
    lists: Rc<RefCell<FreeLists>>,
}

impl Default for BufPool {
    fn default() -> Self {
        Self::new()
    }
}

impl BufPool {
    pub fn new() -> Self {
        Self { lists: Rc::new(RefCell::new(FreeLists::default())) }
    }

    /// A buffer of `len` bytes whose contents are unspecified.
    pub fn take(&self, len: usize) -> Buf {
        let Some(class) = class_of(len) else { return Buf::zeroed(len) };
        let capacity = PAGE_BYTES << class;
        let (base, registered) = self.lists.borrow_mut().take(class).unwrap_or_else(|| (allocate(capacity), None));
        let memory = Memory { base, capacity, registered, pool: Some(Rc::clone(&self.lists)) };
        Buf { memory: Rc::new(memory), start: 0, len }
    }

    /// A buffer of `len` zeroes.
    pub fn take_zeroed(&self, len: usize) -> Buf {
        let mut buf = self.take(len);
        buf.fill(0);
        buf
    }
}

/// The smallest class that holds `len` bytes; `None` if no class does.
fn class_of(len: usize) -> Option<usize> {
    (0..CLASSES).find(|class| len <= PAGE_BYTES << class)
}

#[derive(Default)]
struct FreeLists {
    classes: [Vec<(NonNull<u8>, Option<u16>)>; CLASSES],
    kept_bytes: usize,
}

impl FreeLists {
    fn take(&mut self, class: usize) -> Option<(NonNull<u8>, Option<u16>)> {
        let entry = self.classes[class].pop()?;
        self.kept_bytes -= PAGE_BYTES << class;
        Some(entry)
    }

    fn give_back(&mut self, base: NonNull<u8>, capacity: usize, registered: Option<u16>) {
        if registered.is_none() && self.kept_bytes + capacity > POOL_KEEPS_BYTES {
            release(base, capacity);
            return;
        }
        let class = class_of(capacity).expect("pooled memory has the size of a class");
        self.classes[class].push((base, registered));
        self.kept_bytes += capacity;
    }
}

impl Drop for FreeLists {
    fn drop(&mut self) {
        for (class, list) in self.classes.iter_mut().enumerate() {
            for (base, _) in list.drain(..) {
                release(base, PAGE_BYTES << class);
            }
        }
    }
}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, PAGE_BYTES).expect("buffer sizes are far below the limit of Layout")
}

fn allocate(capacity: usize) -> NonNull<u8> {
    // SAFETY: the layout is not of zero size: every caller rounds up to at least one page.
    let base = unsafe { alloc::alloc_zeroed(layout(capacity)) };
    NonNull::new(base).unwrap_or_else(|| alloc::handle_alloc_error(layout(capacity)))
}

fn release(base: NonNull<u8>, capacity: usize) {
    // SAFETY: `base` came from `allocate` with the same capacity, and its owner (`Memory` or `FreeLists`) gives it up.
    unsafe { alloc::dealloc(base.as_ptr(), layout(capacity)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_parts_are_disjoint_and_join_without_a_copy() {
        let mut whole = BufPool::new().take_zeroed(3 * PAGE_BYTES);
        whole[PAGE_BYTES] = 7;
        let address = whole.as_ptr();
        let (mut head, mut tail) = whole.split_at(PAGE_BYTES);
        head.fill(1);
        tail[1] = 2;
        let whole = head.join(tail);
        assert_eq!(whole.as_ptr(), address);
        assert_eq!((whole[0], whole[PAGE_BYTES], whole[PAGE_BYTES + 1]), (1, 7, 2));
    }

    #[test]
    fn a_pool_reuses_what_comes_back() {
        let pool = BufPool::new();
        let first = pool.take(5000).as_ptr();
        assert_eq!(pool.take(8192).as_ptr(), first);
    }

    #[test]
    #[should_panic(expected = "neighbours")]
    fn strangers_do_not_join() {
        let pool = BufPool::new();
        let _ = pool.take(10).join(pool.take(10));
    }
}
